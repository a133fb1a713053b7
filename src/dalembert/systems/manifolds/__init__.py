"""Riemannian manifolds, by a metric in a chart or by an embedding, and the variational problems of splines on them."""

from dalembert.systems.manifolds.manifold import (
    Chart,
    Embedded,
    Manifold,
    ellipsoid,
    hyperbolic_plane,
    rotation,
    rotations,
    sphere,
    torus,
)
from dalembert.systems.manifolds.splines import LeftInvariant, ambient_spline, euler_lagrange, riemannian_spline

__all__ = [
    "Chart",
    "Embedded",
    "LeftInvariant",
    "Manifold",
    "ambient_spline",
    "ellipsoid",
    "euler_lagrange",
    "hyperbolic_plane",
    "riemannian_spline",
    "rotation",
    "rotations",
    "sphere",
    "torus",
]
