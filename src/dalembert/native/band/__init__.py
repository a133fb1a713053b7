"""The LU factorization of banded matrices in machine code. Begin with `banded`."""
