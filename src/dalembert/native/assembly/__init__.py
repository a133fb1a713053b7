"""Sums over windows of a path, their symmetric factorization and Newton's steps as machine code. Begin with `windows`."""
