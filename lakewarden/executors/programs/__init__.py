"""The programs of each format for its table services. They run inside a session worker."""
