"""What a listing of a directory shows: folders, their files, and what is still being written."""
