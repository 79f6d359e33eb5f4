"""Which partitions of a Paimon table are done, and which have expired."""
