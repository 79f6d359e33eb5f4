"""A live table under every service that Lakewarden has for its format, and the proof that no writer and no reader is
disturbed.
"""
