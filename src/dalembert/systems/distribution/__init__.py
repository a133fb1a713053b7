"""Constraints on velocities: the distribution D, coordinates on it, curves inside it. Begin with `reduction`."""
