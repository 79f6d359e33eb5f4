"""Who may act on a table now: leases, shares, claims, and what dead owners left."""
