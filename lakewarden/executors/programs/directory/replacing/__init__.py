"""How new files take the place of old ones in an object store, which has no renames, and what a kill leaves to do."""
