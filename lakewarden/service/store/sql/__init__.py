"""The store on a database, with SQLAlchemy and the migrations of Alembic: SQLite for one daemon, PostgreSQL for
several.
"""
