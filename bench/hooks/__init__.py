"""What commit hooks cost, and how soon a run follows."""
