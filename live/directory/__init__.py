"""The suite on plain directories."""
