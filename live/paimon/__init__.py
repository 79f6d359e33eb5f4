"""The suite on Paimon, and a reader of its tables that needs neither Paimon nor Lakewarden."""
