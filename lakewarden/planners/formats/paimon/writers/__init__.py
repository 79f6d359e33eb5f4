"""What the writers of a Paimon table do."""
