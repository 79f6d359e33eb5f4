"""The first steps with a lake: `lakewarden init`, `discover`, `check-config --connect` and `writer-options --all`."""
