"""Who may act on a table now: leases, shares, claims, and the runs of dead owners."""
