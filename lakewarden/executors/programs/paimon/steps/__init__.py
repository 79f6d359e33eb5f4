"""The steps that the services of Paimon have in common."""
