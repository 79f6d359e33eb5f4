"""The page for operators, over HTTP. It is in HTML, for people. Programs use `/v1`."""
