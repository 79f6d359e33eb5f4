"""`./dev live fleet`: hundreds of tables, taken over and given back by the commands of docs/take_over.md alone."""
