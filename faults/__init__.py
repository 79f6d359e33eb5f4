"""The fault suite: a daemon services a live table, and is killed again and again. The checker must find no damage."""
