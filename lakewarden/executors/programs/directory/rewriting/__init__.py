"""How small files become few large ones, with proof that no row and no value was lost."""
