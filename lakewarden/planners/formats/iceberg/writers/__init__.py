"""What the writers of an Iceberg table do, and how far our commits keep from them."""
