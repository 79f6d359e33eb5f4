"""What the steps of Hudi's services have in common."""
