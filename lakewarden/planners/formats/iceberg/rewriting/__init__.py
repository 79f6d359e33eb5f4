"""Which files of an Iceberg table a rewrite takes, and which deletes it must not drop."""
