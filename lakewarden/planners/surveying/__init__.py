"""Surveys of tables that are not registered: how they are found, and what their files add up to."""
