"""The pool of session workers: their processes, their supervision and their ends. Free of Spark."""
