"""The levels of the settings of a table: defaults, policy, pattern, and the entry of the table."""
