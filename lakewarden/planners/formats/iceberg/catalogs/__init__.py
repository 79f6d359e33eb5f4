"""The catalogs that name the newest metadata file of an Iceberg table: REST, Hive, JDBC and Hadoop."""
