"""What the steps of Iceberg's services have in common."""
