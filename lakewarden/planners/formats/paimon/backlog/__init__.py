"""What has piled up on a Paimon table."""
