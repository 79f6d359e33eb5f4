"""`lakewarden report`: what the tables of a lake would gain, without a daemon and without a configuration."""
