"""ẏ = g(z, y, t), F(z, y, t) = 0, integrated by Taylor series or an explicit method of order 8 as machine code. Begin with `flow`."""
