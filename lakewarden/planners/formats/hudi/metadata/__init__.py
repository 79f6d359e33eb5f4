"""The content of `.hoodie`: properties, the timeline and its files."""
