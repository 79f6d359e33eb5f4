"""What has piled up for each service of an Iceberg table, and what holds services back."""
