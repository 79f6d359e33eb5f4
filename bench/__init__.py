"""The measured speed of the product: one module for each figure, with its own `measure`, in a folder by subject."""
