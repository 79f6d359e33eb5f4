"""The backlog of each service of a Hudi table, and what blocks services."""
