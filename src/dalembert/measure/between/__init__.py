"""Between the nodes of a path: where events lie."""
