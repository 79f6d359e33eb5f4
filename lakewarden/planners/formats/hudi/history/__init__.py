"""The archived timeline of a Hudi table: instants that an archive has taken off the active one."""
