"""The past over HTTP: curves of debt, decisions, and the logs of runs."""
