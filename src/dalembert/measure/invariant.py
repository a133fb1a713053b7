"""Invariant: a scalar along a path, with its drift."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.notebook import Described


class Invariant(Described, eqx.Module):
    """A scalar along a path, and whether it is conserved.

    Attributes:
        t: (K,) times.
        values: (K,).
    """

    t: Float[Array, "K"]
    values: Float[Array, "K"]

    @property
    def range(self) -> Float[Array, ""]:
        """Largest value minus smallest."""
        return jnp.max(self.values) - jnp.min(self.values)

    @property
    def drift(self) -> Float[Array, "K"]:
        """Values minus the first."""
        return self.values - self.values[0]

    @property
    def slope(self) -> Float[Array, ""]:
        """Slope of the least-squares line, per unit of time: near zero if the value oscillates without drifting."""
        s = self.t - jnp.mean(self.t)
        return (s @ (self.values - jnp.mean(self.values))) / jnp.maximum(s @ s, jnp.finfo(float).tiny)

    def describe(self) -> str:
        """The numbers in one line."""
        return f"first {float(self.values[0]):.6g}, range {float(self.range):.3e}, slope {float(self.slope):.3e} per time"
