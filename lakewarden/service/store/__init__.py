"""The store: an index of the runs and decisions of Lakewarden. The truth is the timeline of the table."""
