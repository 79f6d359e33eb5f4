"""What partitions of all formats have in common: the time that the values of their columns tell."""
