"""What polling costs: many tables that do not change."""
