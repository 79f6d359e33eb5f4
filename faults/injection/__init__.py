"""Which faults there are, and how they reach the processes of a daemon."""
