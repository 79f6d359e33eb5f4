"""The trials on Paimon."""
