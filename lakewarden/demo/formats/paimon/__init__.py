"""The demo on Paimon: its table, its writer and its reader."""
