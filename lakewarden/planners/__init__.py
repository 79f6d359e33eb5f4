"""What is true of a table, and what it needs. Deciding is pure; reading goes through Storage."""
