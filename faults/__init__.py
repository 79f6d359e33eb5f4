"""The proof by killing: a live table is serviced by a daemon that dies again and again, and nothing may come of it."""
