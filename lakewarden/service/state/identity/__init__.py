"""The callers of tokens and certificates: which issuers sign them, and what their claims give."""
