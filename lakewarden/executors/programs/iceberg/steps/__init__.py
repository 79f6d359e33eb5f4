"""What the services of Iceberg have in common in their steps."""
