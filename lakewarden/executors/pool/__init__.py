"""The pool of session workers: processes, their supervision, and their ends. Free of Spark."""
