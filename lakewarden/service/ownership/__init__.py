"""Who may act on a table now: leases, shares, and the runs of dead owners."""
