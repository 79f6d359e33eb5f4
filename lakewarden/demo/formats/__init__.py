"""What each format brings to the demo."""
