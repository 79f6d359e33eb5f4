"""The catalogs that know Paimon tables by name: a warehouse, a Hive metastore, and rows of a database."""
