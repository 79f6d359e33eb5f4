"""Decoding of bytes from outside, within bounds: Avro containers, JSON texts, numbers and times.

For any bytes it takes a bounded time and memory. It ends with a value or with a DamagedError. Formats translate that
error into their own words. Nothing else imports fastavro.
"""
