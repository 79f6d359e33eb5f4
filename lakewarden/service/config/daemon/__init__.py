"""The settings of the daemon itself."""
