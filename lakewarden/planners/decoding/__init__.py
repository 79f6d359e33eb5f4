"""Bytes from outside become values here, within bounds: Avro containers, JSON texts, numbers and times.

Whatever the bytes are, it takes a bounded time and memory, and ends with a value or with a DamagedError. Formats
translate that into their own words. Nothing else imports fastavro.
"""
