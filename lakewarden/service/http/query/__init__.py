"""The query of a request: filters and pages of lists, and parameters that do not exist."""
