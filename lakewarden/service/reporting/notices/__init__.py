"""Notices: what needs an operator is found, told once, and sent to a webhook."""
