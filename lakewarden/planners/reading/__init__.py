"""Reading tables apart from the daemon: one look, the process in which it is made, and what that process may use up."""
