"""`lakewarden doctor`: what a configuration can reach from this machine."""
