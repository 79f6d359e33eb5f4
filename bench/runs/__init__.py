"""What runs cost, in the warm pool and in sessions of their own."""
