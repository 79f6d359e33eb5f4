"""Reports for people and Prometheus: metrics, log events, explain, writer options."""
