"""Lakewarden keeps lakehouse tables healthy while other people write to them."""

__version__ = "0.1.0"
