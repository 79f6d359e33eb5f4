"""The store on a database, through SQLAlchemy with Alembic's migrations: SQLite for one daemon, PostgreSQL for more."""
