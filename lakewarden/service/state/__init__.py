"""What the daemon keeps between turns: tables, observations, active runs, backoff, approvals, barriers."""
