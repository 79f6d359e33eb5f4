"""The trials: one daemon or several replicas, round after round, with a report and a verdict."""
