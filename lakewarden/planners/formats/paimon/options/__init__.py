"""What a Paimon table and its owner set."""
