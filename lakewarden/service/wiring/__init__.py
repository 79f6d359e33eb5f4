"""The composition root: only this room names concrete stores and pools. Each part returns a frozen group."""
