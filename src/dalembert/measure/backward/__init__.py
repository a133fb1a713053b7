"""Backward error analysis: the modified equation of a scheme, as numbers and as formulas, and what follows from it."""
