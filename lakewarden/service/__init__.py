"""The daemon: when services run, under which lease, with which configuration, and who is told."""
