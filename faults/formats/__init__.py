"""What each format contributes to the trials: its table, its writers, and its evidence."""
