"""Start of a run: its initial data, checked, and its first nodes. Begin with `prepare`."""
