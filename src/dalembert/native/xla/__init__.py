"""Compiled runs behind XLA's calling convention. Begin with `handles`."""
