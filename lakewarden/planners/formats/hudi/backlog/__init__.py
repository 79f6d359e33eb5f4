"""What has piled up for each service of a Hudi table, and what holds services back."""
