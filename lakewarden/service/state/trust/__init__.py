"""What was seen of the writers of a table, and of other programs that serve it, before Lakewarden acts on it."""
