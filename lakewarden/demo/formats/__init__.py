"""The part of each format in the demo."""
