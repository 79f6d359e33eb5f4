"""What several benches measure with: a daemon in its own process, and time on cores."""
