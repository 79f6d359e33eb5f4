"""Reading tables in processes apart from the daemon: one observation of a table, the process, and its limits."""
