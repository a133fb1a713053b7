"""The graph of scalar operations and its rewriting. Begin with `graph`."""
