"""The files of a Paimon table that are no data."""
