"""One root of F(z) = 0 with all that is evaluated there, in one call of machine code. Begin with `root`."""
