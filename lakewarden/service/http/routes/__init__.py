"""The routes of the API, one file for each thing that they are about."""
