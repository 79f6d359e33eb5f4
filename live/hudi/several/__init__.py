"""Several writers on one Hudi table, and which of their failures Lakewarden has caused."""
