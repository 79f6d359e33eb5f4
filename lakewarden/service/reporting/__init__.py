"""Reports for people and Prometheus: metrics, log events, explain, inspect, writer options."""
