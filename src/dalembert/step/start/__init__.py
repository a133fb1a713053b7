"""What a run begins with: its data, checked, and its first nodes. Begin with `prepare`."""
