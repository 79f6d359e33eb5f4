"""The demo on Iceberg: its table, its writers and its reader."""
