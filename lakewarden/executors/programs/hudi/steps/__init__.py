"""What the services of Hudi have in common in their steps."""
