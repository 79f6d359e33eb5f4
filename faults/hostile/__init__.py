"""The proof that Lakewarden trusts nothing from outside: `./dev faults --hostile`."""
