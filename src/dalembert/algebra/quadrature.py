"""∫₀¹ f by Gauss's rule of six points, exact for polynomials of degree 11."""

import numpy as np

GAUSS_NODES, GAUSS_WEIGHTS = (np.polynomial.legendre.leggauss(6) + np.array([[1.0], [0.0]])) * 0.5
