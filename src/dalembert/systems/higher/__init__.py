"""Variational problems of order k and their continuous flow. Begin with `variational`."""
