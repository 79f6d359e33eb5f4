"""What the writers of an Iceberg table do, and how Lakewarden's commits keep a distance from theirs."""
