"""A Flink job that is restored from its savepoint after its table was cleaned, by Lakewarden and by a careless nightly
job.
"""
