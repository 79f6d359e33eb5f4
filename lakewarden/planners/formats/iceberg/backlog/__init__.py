"""The backlog of each service of an Iceberg table, and what blocks services."""
