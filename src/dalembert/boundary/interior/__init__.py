"""Bounds on the unknowns of a KKT system, by a primal-dual interior point method. Begin with `iteration`."""
