"""Reduction by rotations in Cartesian coordinates: the discrete quotient is the full run to rounding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # about z
UP = np.array([0.0, 0.0, 1.0])
H, STEPS = 0.05, 100


def coil(q, v, p):
    """Read along a helix: turned by z, nothing changes; v[2] and the turn are coupled."""
    along, across = jnp.cos(q[2]) * q[0] + jnp.sin(q[2]) * q[1], q[0] * v[1] - q[1] * v[0]
    return 0.5 * (v @ v + p["m"] * v[2] ** 2) + 0.3 * v[2] * across + along - 0.5 * (q[0] ** 2 + q[1] ** 2) ** 2


def radial_friction(q, v, p):
    """Along (x, y), which the screw (-y, x, 1) leaves perpendicular."""
    return -0.3 * jnp.array([q[0], q[1], 0.0]) * (q[0] * v[0] + q[1] * v[1])


COIL = da.System(coil, forces=radial_friction, coordinates=("x", "y", "z"), parameters={"m": 0.4})
CENTRE = np.array([0.3, -0.2, 0.1])
PENDULUM = da.System(
    lambda q, v: 0.5 * v @ v - q[2] - 0.3 * q[2] ** 2,
    da.Holonomic(lambda q: (q - CENTRE) @ (q - CENTRE) - 1.0),
)
UNIT = 1e6  # of lengths in BEAD


def bead(q, v):
    q, v = q / UNIT, v / UNIT
    return 0.5 * v @ v + 0.3 * v[2] * (q[0] * v[1] - q[1] * v[0]) - jnp.sqrt(1 + q[0] ** 2 + q[1] ** 2)


BEAD = da.System(bead)
STARTS = {
    "screw with friction": (COIL, ([1.0, 0.3, 0.2], [0.1, 0.6, 0.4]), [(TURN, UP)]),
    "holonomic": (PENDULUM, ([0.9, -0.2, -0.7], [0.4, 0.7, 0.3]), [(TURN, -TURN @ CENTRE)]),
    "rotation and translation": (BEAD, ([1e6, 3e5, 2e5], [1e5, 6e5, 4e5]), [(TURN, 0.0 * UP), (0.0 * TURN, UP)]),
}


@functools.cache
def reduced(name):
    system, start, generators = STARTS[name]
    return da.routh(system, *start, generators=generators)


@functools.cache
def quotient(name):
    small = reduced(name)
    return da.simulate(small.discrete(H), start=da.Start(nodes=small.nodes(H)), h=H, steps=STEPS)


@pytest.mark.parametrize("name", STARTS)
def test_the_quotient_of_the_scheme_is_the_full_run_to_rounding(name):
    system, (q0, v0), generators = STARTS[name]
    full = da.simulate(system, q0, v0, h=H, steps=STEPS)
    small = reduced(name)
    assert len(small.x0) == 3 - len(generators)
    path = quotient(name)
    assert path.q.shape[1] == 3 - len(generators)
    back = small.reconstruct(path)
    if system.constraints:
        nodes, speeds = full.q, np.diff(full.q, axis=0) / H
        np.testing.assert_allclose(np.abs(path.multipliers), np.abs(_node_multipliers(system, nodes)), rtol=0, atol=1e-10)
    else:
        nodes, speeds = np.concatenate([full.q[:1] - 0.5 * H * full.v[:1], full.q + 0.5 * H * full.v]), full.v
    both = min(len(nodes), len(back.q))
    size = np.max(np.abs(q0))
    np.testing.assert_allclose(back.q[:both], nodes[:both], rtol=0, atol=2e-13 * size)
    np.testing.assert_allclose(back.v[: both - 1], speeds[: both - 1], rtol=0, atol=4e-12 * size)
    assert np.ptp(np.arctan2(back.q[:, 1], back.q[:, 0])) > 1.0  # it turns


def _node_multipliers(system, q):
    """λ of h φ_qᵀλ = -(D₁L_d + D₂L_d) by the impulses of the mid-point rule, written out for PENDULUM."""
    weight = lambda a, b: np.array([0.0, 0.0, -0.5 * H]) * (1.0 + 0.6 * 0.5 * (a[2] + b[2]))  # noqa: E731
    kick = np.array([weight(a, b) + weight(b, c) - (c - 2 * b + a) / H for a, b, c in zip(q, q[1:], q[2:], strict=False)])
    rows = 2.0 * (q[1:-1] - CENTRE)
    return -np.sum(kick * rows, axis=1, keepdims=True) / np.sum(rows**2, axis=1, keepdims=True) / H


def test_the_reduced_system_converges_to_the_flow_and_leads_back():
    system, (q0, v0), _ = STARTS["screw with friction"]
    small = reduced("screw with friction")
    exact, errors = da.reference(system, q0, v0, jnp.array([0.0, 2.0])), []
    for h in (0.05, 0.025):  # of as many steps, which have the same programs
        path, last = da.simulate(small.system, small.x0, small.w0, h=h, steps=80), round(2.0 / h)
        back = small.reconstruct(path)
        errors.append(max(np.max(np.abs(back.q[last] - exact.q[-1])), np.max(np.abs(back.v[last] - exact.v[-1]))))
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, rtol=0, atol=0.1)
    np.testing.assert_allclose(back.q[0], q0, rtol=0, atol=1e-14)
    np.testing.assert_allclose(back.v[0], v0, rtol=0, atol=1e-14)
    turned = small.reconstruct(path, q0=[-0.3, 1.0, 0.2 + np.pi / 2])  # a quarter later on the same screw
    np.testing.assert_allclose(turned.q[:, 2], back.q[:, 2] + np.pi / 2, rtol=0, atol=1e-13)
    np.testing.assert_allclose(turned.q[:, 1], back.q[:, 0], rtol=0, atol=1e-13)


def test_what_a_rotation_cannot_reduce_is_said():
    bead, start, (turn, up) = STARTS["rotation and translation"]
    grow, shear = np.diag([1.0, 1.0, 0.0]), np.outer([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    for generators, kind, reason in (
        ([(TURN, UP * 1e6), (TURN, [0.0, 1e5, 0.0])], ValueError, "0 and 1 do not commute"),
        ([(TURN, [0.0, 1e5, 0.0])], ValueError, "L reads a coordinate"),
        ([(grow, 0.0 * UP)], ValueError, "has eigenvalues"), ([(shear, 0.0 * UP)], ValueError, "has eigenvalues"),
        ([(0.0 * TURN, 0.0 * UP)], da.RankDeficientError, "acts freely"),
        ([turn, turn], da.RankDeficientError, "acts freely"),
        ([turn, up, up], ValueError, "3 for 3 coordinates"),
    ):  # fmt: skip
        with pytest.raises(kind, match=reason):
            da.routh(bead, *start, generators=generators)
    with pytest.raises(da.RankDeficientError, match="acts freely"):
        da.routh(bead, [0.0, 0.0, 1.0], [1e6, 0.0, 0.0], generators=[turn])
    with pytest.raises(TypeError, match="group, generators: give one"):
        da.routh(bead, *start)
    small = reduced("rotation and translation")
    with pytest.raises(ValueError, match="scheme: the quotient is one of nodes"):
        small.discrete(0.1, da.Scheme(order=4))
    (first, second), near = small.nodes(H), jnp.array([1e4])
    impulses = small.discrete(H).forces
    assert impulses is not None
    impulses = jax.jit(impulses)
    assert np.all(np.isfinite(impulses(jnp.asarray(first), jnp.asarray(second))[0]))
    assert np.all(np.isnan(impulses(near, near)[0]))  # no φ has this momentum, so near to the centre
    path = quotient("rotation and translation")
    with pytest.raises(ValueError, match="path: its nodes do not satisfy"):
        small.reconstruct(path, scheme=da.Scheme(action=da.Beta(0.0)))
