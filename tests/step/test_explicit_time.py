"""L, forces, constraints and reactions that read the time, in every scheme: against equations derived by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da

START, LENGTH = 0.4, 1.0  # a clock that starts at 0 would not tell t from t - t0


def solved(rates, begin):
    """The state at the end, by SciPy."""
    return solve_ivp(rates, (START, START + LENGTH), begin, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]


def mass(t, xp=jnp):
    return 1.0 + 0.5 * xp.sin(3 * t)


def forced():
    """d/dt(m(t) v) = -k(t) sin q - c(t) v + cos 2t."""
    system = da.System(
        lambda q, v, t: 0.5 * mass(t) * v @ v + (1 + 0.3 * jnp.cos(2 * t)) * jnp.cos(q[0]),
        forces=lambda q, v, t: -0.4 * (1 + jnp.sin(4 * t)) * v + jnp.cos(2 * t),
        time_dependent=True,
    )

    def rates(t, z):
        q, v = z
        pull = -(1 + 0.3 * np.cos(2 * t)) * np.sin(q) - 0.4 * (1 + np.sin(4 * t)) * v + np.cos(2 * t)
        return [v, (pull - 1.5 * np.cos(3 * t) * v) / mass(t, np)]

    return system, [0.3], [0.8], solved(rates, [0.3, 0.8])[:1]


def angle(t, xp=jnp):
    return 1.3 * t + 0.4 * xp.sin(2 * t)


def turning_wire():
    """A bead on a wire through the origin that turns by θ(t), with weight and friction: r'' = r θ'² - g sin θ - c(t) r'."""
    friction = lambda t, xp=jnp: 0.3 * (1 + xp.sin(4 * t))  # noqa: E731
    system = da.System(
        lambda q, v, t: 0.5 * v @ v - 2.0 * q[1],
        da.Holonomic(lambda q, t: jnp.cos(angle(t)) * q[1] - jnp.sin(angle(t)) * q[0]),
        forces=lambda q, v, t: -friction(t) * v,
        time_dependent=True,
    )

    def rates(t, z):
        r, w = z
        turn = 1.3 + 0.8 * np.cos(2 * t)
        return [w, r * turn**2 - 2.0 * np.sin(angle(t, np)) - friction(t, np) * w]

    along = np.array([np.cos(angle(START, np)), np.sin(angle(START, np))])
    across, turn = np.array([-along[1], along[0]]), 1.3 + 0.8 * np.cos(2 * START)
    r = solved(rates, [0.7, 0.2])[0]
    end = angle(START + LENGTH, np)
    return system, 0.7 * along, 0.2 * along + 0.7 * turn * across, r * np.array([np.cos(end), np.sin(end)])


def slope(t, x, xp=jnp):
    return xp.sin(2 * t) + 0.5 * xp.cos(x)


def knife(reactions: str):
    """v_y = s(t, x) v_x and gravity g(t); forces along (-s, 1), or along (-r(t), 1)."""
    own = lambda t, x, xp: slope(t, x, xp) if reactions == "d'Alembert" else 0.6 * xp.cos(3 * t) + 0.2 * x  # noqa: E731
    gravity = lambda t, xp=jnp: 1.0 + 0.5 * xp.cos(3 * t)  # noqa: E731
    given = {} if reactions == "d'Alembert" else {"reactions": lambda q, v, t: jnp.stack([-own(t, q[0], jnp), 1.0])}
    system = da.System(
        lambda q, v, t: 0.5 * v @ v - gravity(t) * q[1],
        da.Nonholonomic(lambda q, v, t: v[1] - slope(t, q[0]) * v[0], **given),
        time_dependent=True,
    )

    def rates(t, z):
        x, _, u = z
        s, r = slope(t, x, np), own(t, x, np)
        change = (2 * np.cos(2 * t) - 0.5 * np.sin(x) * u) * u
        return [u, s * u, -r * (gravity(t, np) + change) / (1 + s * r)]

    q, u = [0.2, -0.1], 0.9
    return system, q, [u, slope(START, q[0], np) * u], solved(rates, [*q, u])[:2]


def curvature(reactions: str):
    """(ẋÿ - ẍẏ)/|v|³ = κ(t), forces across v, or along a direction that turns with t; and a force in time."""
    bend = lambda t, xp=jnp: 1.0 + 0.5 * xp.sin(3 * t)  # noqa: E731
    push = lambda t, xp=jnp: xp.stack([0.5 * xp.cos(4 * t), 0.3 * t * t])  # noqa: E731

    def direction(v, t, xp):
        across = xp.stack([-v[1], v[0]])
        return across if reactions == "across" else across + 0.4 * xp.sin(3 * t) * v

    system = da.System(
        lambda q, v, t: 0.5 * v @ v,
        da.SecondOrder(
            lambda q, v, a, t: (v[0] * a[1] - v[1] * a[0]) / (v @ v) ** 1.5 - bend(t),
            reactions=lambda q, v, a, t: direction(v, t, jnp),
        ),
        forces=lambda q, v, t: push(t),
        time_dependent=True,
    )

    def rates(t, z):
        v = z[2:]
        f, d = push(t, np), direction(v, t, np)
        size = (bend(t, np) * (v @ v) ** 1.5 - (v[0] * f[1] - v[1] * f[0])) / (v[0] * d[1] - v[1] * d[0])
        return [*v, *(f + size * d)]

    return system, [0.1, 0.2], [1.0, 0.5], solved(rates, [0.1, 0.2, 1.0, 0.5])[:2]


CASES = {
    "forced": forced,
    "turning wire": turning_wire,
    "knife edge": lambda: knife("d'Alembert"),
    "knife edge, other reactions": lambda: knife("generalized"),
    "curvature": lambda: curvature("across"),
    "curvature, other reactions": lambda: curvature("turning"),
}
AT_ENDS = da.Scheme("nodes", action=(da.Beta(0.0), da.Beta(1.0)))
SCHEMES = {
    "default": (None, 2),
    "kick_drift_kick": (da.Scheme("kick_drift_kick"), 2),
    "nodes": (da.Scheme("nodes"), 2),
    "nodes, action at both ends": (AT_ENDS, 2),
    "order 4": (da.Scheme(order=4), 4),
    "order 6": (da.Scheme(order=6), 6),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", CASES)
def test_order(case, scheme):
    system, q0, v0, end = CASES[case]()
    chosen, order = SCHEMES[scheme]
    coarse, errors = (10 if order == 6 else 20), []
    for steps in (coarse, 2 * coarse, 4 * coarse):
        path = da.simulate(system, q0, v0, h=LENGTH / steps, steps=steps, t0=START, scheme=chosen)
        errors.append(np.abs(np.asarray(path.q[-1]) - end).max())
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    # Of order 6 the last errors are near SciPy's; lower orders than these are those of a time that is read wrongly.
    assert slopes.max() > 5.3 if order == 6 else slopes[-1] > order - 0.1, errors
    assert errors[-1] < {2: 2e-4, 4: 1e-8, 6: 1e-12}[order]
