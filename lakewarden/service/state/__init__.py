"""The state of the daemon between turns: tables, observations, active runs, backoff, approvals, barriers."""
