"""The events of the daemon, and the interface of their listeners."""
