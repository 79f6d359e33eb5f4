"""What changes while a client looks: the progress of runs, events, and tags of what was read before."""
