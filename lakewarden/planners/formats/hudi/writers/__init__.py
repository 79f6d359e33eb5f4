"""What the writers of a Hudi table do: writes in flight, failures, locks that were seen, what they touch."""
