"""Steps one after the other: the state between them, the loop, the choice of a root, outcomes. Begin with `loop`."""
