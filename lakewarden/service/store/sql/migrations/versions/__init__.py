"""One module for each change of the schema since the first release."""
