"""Access to the files of a table by the credentials that its REST catalog hands out."""
