"""The metadata of an Iceberg table: metadata files, manifest lists and manifests, and what is remembered of them."""
