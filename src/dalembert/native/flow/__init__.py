"""ẏ = g(z, y, t), F(z, y, t) = 0, integrated by an explicit method of order 8 as machine code. Begin with `flow`."""
