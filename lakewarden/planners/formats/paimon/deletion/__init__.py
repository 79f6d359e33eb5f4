"""What may be deleted of a Paimon table, and what may not."""
