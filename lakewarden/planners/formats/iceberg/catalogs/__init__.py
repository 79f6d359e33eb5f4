"""Where the newest metadata file of an Iceberg table is: REST, Hive, JDBC and Hadoop catalogs."""
