"""Paimon's own client, opened for one run."""
