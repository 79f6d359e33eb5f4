"""The proof that nothing from outside is trusted: `./dev faults --hostile`."""
