"""The values that all packages share. They are frozen, need only the standard library, and do no I/O."""
