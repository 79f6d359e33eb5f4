"""Who sends a request, and what that caller may do."""
