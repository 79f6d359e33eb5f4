"""The trials on plain directories."""
