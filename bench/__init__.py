"""The product's speed, measured: one module per figure, each with its own `measure`."""
