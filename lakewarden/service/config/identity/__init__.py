"""The settings of what identifies a daemon or a caller: certificates and tokens."""
