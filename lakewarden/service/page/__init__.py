"""The page for operators: what it shows, and its HTML. It knows nothing of requests."""
