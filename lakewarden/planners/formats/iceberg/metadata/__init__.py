"""The metadata of an Iceberg table: its metadata files, manifest lists and manifests, and what is kept of them."""
