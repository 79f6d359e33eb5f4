"""The facts about a table, and what it needs. Decisions are pure functions. Reading goes through Storage."""
