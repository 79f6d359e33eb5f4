"""What lies below `.hoodie`: properties, the timeline and what its files say."""
