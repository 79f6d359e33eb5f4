"""Whoever reads for the control thread, so that it waits for no storage: processes for tables, threads for the rest."""
