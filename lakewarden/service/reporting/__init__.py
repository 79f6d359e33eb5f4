"""What people and Prometheus are told: metrics, log events, explain, inspect, writer options."""
