"""The suite on Hudi."""
