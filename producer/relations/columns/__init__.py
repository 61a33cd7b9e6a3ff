"""Which columns of the catalogue those of a relation are."""
