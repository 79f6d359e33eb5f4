"""The readers of the daemon. With them the control thread waits for no storage: processes for tables, threads for the
rest.
"""
