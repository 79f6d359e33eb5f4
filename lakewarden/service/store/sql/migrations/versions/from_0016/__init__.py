"""Migrations from number 16 on: a folder has at most fifteen modules."""
