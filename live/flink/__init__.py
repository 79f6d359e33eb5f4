"""A Flink job that is restored from its savepoint after its table was cleaned, by us and by a careless caretaker."""
