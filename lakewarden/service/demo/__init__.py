"""`lakewarden demo`: a live table kept healthy before your eyes, and the proof that every row is right."""
