"""Several beliefs at once, weighed by how well each of them foresaw the data."""
