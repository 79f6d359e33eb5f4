"""The lake of the proof: how its tables are made."""
