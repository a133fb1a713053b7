"""Linear constraints on velocities by as many velocities as are free: the equation on D. Begin with `flow`."""
