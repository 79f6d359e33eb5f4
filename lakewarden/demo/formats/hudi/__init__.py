"""The demo on Hudi: its table, its writers and its reader."""
