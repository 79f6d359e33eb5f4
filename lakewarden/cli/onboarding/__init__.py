"""The commands that take a lake over: the first steps, and adoption."""
