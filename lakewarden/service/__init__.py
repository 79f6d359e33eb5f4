"""The daemon: when services run, under whose lease, with what configuration, and who is told."""
