"""What is no finite difference map is refused, and why; what is one passes, whatever its coordinates (Definition 5.5)."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import dalembert as da
from dalembert.discretize import check_maps


class Given(da.PairMap):
    function: Callable = eqx.field(static=True)
    weight: float = 0.5

    def __call__(self, q0, d, h):
        return self.function(q0, d, h)


class GivenTriple(da.TripleMap):
    function: Callable = eqx.field(static=True)

    def __call__(self, q1, d0, d1, h):
        return self.function(q1, d0, d1, h)


def ahead(q0, d, h):
    """(q₁, Δ(q + q³/3)/h / (1 + q₁²)): the velocity in other coordinates, written in points."""
    q1 = q0 + d
    return q1, (q1 + q1**3 / 3 - q0 - q0**3 / 3) / (h * (1 + q1**2))


def check(**maps):
    check_maps(da.Scheme("nodes", **maps), 2)


@pytest.mark.parametrize(
    ("maps", "says"),
    [
        (
            {"action": Given(lambda q, d, h: (q + 0.5 * d, (d + 0.01) / h))},
            r"action: \(q, q\) goes to v = .*takes equal points",
        ),
        ({"action": Given(lambda q, d, h: (q + h, d / h))}, r"action: \(q, q\) goes to q = .*to rest, \(q, 0\)"),
        (
            {"distribution": Given(lambda q, d, h: (q, d**2 / h))},
            r"distribution: its derivative at \(q, q\) has rank 2 of 4",
        ),
        ({"kinematic": GivenTriple(lambda q, d0, d1, h: (q, d0 / h, d0 / h + q))}, r"kinematic: \(q, q, q\) goes to a = "),
        ({"variational": GivenTriple(lambda q, d0, d1, h: (q, d0 / h, d0 / h**2))}, "variational: .* rank 4 of 6"),
    ],
    ids=["a velocity of its own", "a shift", "folded", "an acceleration of its own", "the last point unread"],
)
def test_what_is_no_difference_map_is_refused(maps, says):
    with pytest.raises(ValueError, match="scheme: " + says):
        check(**maps)


def test_what_is_one_passes_where_it_has_a_value():
    """Written in points and in other coordinates; one in coordinates that are positive; one whose weights are traced."""
    check(action=Given(ahead))
    check(action=Given(lambda q, d, h: (q * jnp.exp(0.5 * jnp.log1p(d / q)), q * jnp.log1p(d / q) / h)))
    check(action=Given(lambda q, d, h: (q + 0.5 * d, (jnp.sqrt(q + d) - jnp.sqrt(q)) * 2 * jnp.sqrt(q) / h)))  # cos 2 < 0
    jax.eval_shape(lambda w: check(action=Given(lambda q, d, h: (q + w * d, d / h))), 0.5)
