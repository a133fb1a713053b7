"""ẏ = g(z, y, t) with F(z, y, t) = 0, by a method of order 8, as machine code. Begin with `flow`."""
