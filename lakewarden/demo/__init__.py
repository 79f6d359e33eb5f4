"""`lakewarden demo`: Lakewarden services a live table while you watch, and proves at the end that every row is
right.
"""
