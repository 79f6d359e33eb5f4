"""One folder for each lakehouse format: metadata in, TableView out."""
