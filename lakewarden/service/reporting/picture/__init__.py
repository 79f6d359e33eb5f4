"""The picture of a timeline: an SVG that needs no script, for the page."""
