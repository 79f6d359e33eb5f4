"""The picture of a timeline: an SVG that needs no script, for the page and for `lakewarden inspect --svg`."""
