"""Constraints that depend on each other: the rows that are needed, and the multipliers of all of them."""
