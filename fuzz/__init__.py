"""Damaged and crafted files for every reader of table metadata, one after the other, for as long as is asked."""
