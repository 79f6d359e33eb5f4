"""The demo on a plain directory: its writer, which leaves files as Flink does, and its reader."""
