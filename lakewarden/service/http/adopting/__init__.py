"""Routes about how far a table is trusted: its proof, and its adoption."""
