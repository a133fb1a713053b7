"""Frontal factorizations with fixed pivots against banded LU, where pivots vanish at ends and fixed nodes."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.boundary import (
    BoundaryNewton,
    FrontalFactors,
    LinearSolver,
    Request,
    Settings,
    Termination,
    TimeGrid,
    first_values,
    inertia_of,
    prepare_problem,
    transcribe,
)

SPHERE = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Holonomic(lambda q: q @ q - 1.0), derivatives=2)
CART = da.VariationalProblem(
    lambda q, v, a: 0.5 * (1.3 * a[0] + 0.15 * (a[1] * jnp.cos(q[1]) - v[1] ** 2 * jnp.sin(q[1]))) ** 2,
    da.SecondOrder(lambda q, v, a: a[0] * jnp.cos(q[1]) + 0.5 * a[1] + 9.81 * jnp.sin(q[1])),
    derivatives=2,
)
VAKONOMIC = da.VariationalProblem(
    lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2), da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0] + q[0] * v[1])
)
T = np.linspace(0.0, 1.0, 161)
CASES = {
    "free ends": (SPHERE, {"initial": ([1.0, 0.0, 0.0],), "final": ([0.0, 1.0, 0.0],), "through": {0.5: [0.6, 0.0, 0.8]}}),
    "multipliers at fixed ends": (
        VAKONOMIC,
        {
            "initial": ([0.0, 0.0, 0.0],), "final": ([0.7, 0.2, 0.5],),
            "guess": np.stack([0.7 * T, 0.2 * T + np.sin(np.pi * T), 0.5 * T], axis=1),
        },
    ),
    "constraints on accelerations": (
        CART, {"initial": ([0.0, 0.0], [0.0, 0.0]), "final": ([0.3, 1.0], [0.0, 0.0]), "guess": np.outer(T, [0.3, 1.0])}
    ),
}  # fmt: skip


def system_of(name):
    """The KKT system of a case with 160 steps, the slots of its blocks, and a first path."""
    problem, given = CASES[name]
    request = Request(*(given.get(key) for key in ("initial", "final", "through", "guess")))
    base = prepare_problem(problem, [request], TimeGrid(1.0, 160), None)
    made = transcribe(base.unknowns, base.values[0], base.typical_sizes(base.extents[0]))
    return made.kkt, made.layout.part("slots"), first_values(made, base.values)[0]


@pytest.mark.parametrize("name", CASES)
def test_frontal_and_banded_factorizations_agree(name):
    kkt, slots, z = system_of(name)
    one, other = LinearSolver(kkt, z), LinearSolver(kkt, z)
    other.frontal = None
    assert isinstance(one.factor(z), FrontalFactors)
    found, expected = (BoundaryNewton(kkt, linear, Settings()).minimise(z) for linear in (one, other))
    assert found.end is expected.end is Termination.CONVERGED
    assert found.linear.refusals == 0  # all steps by frontal factors
    assert np.max(np.abs((found.z - expected.z)[:, slots])) < 1e-10 * (1.0 + np.max(np.abs(expected.z[:, slots])))
    assert np.max(np.abs((found.z - expected.z) * (kkt.relaxed & kkt.free.any(axis=0)))) < 1e-6
    kinds = [inertia_of(kkt, it.linear, it.z) for it in (found, expected)]
    assert kinds[0] == kinds[1]
    assert found.update < 1e-9


def test_a_factorization_that_is_not_accurate_is_not_used():
    """Pivots of another problem: corrections do not converge, and banded LU takes over."""
    kkt, slots, z = system_of("free ends")
    right, wrong = LinearSolver(kkt, z), LinearSolver(kkt, z)
    groups = right.frontal.factorization.plan.pivots
    wrong.frontal = kkt.assembly.frontal(((9,), *(g for g in groups if 9 not in g)))  # a multiplier first: 0
    found, expected = (BoundaryNewton(kkt, linear, Settings()).minimise(z) for linear in (wrong, right))
    assert found.linear.refusals > 0
    assert found.end is Termination.CONVERGED
    assert np.max(np.abs((found.z - expected.z)[:, slots])) < 1e-10


def test_ten_thousand_nodes_on_the_sphere():
    """The constraint holds to rounding, the curve is that of few nodes to h², and the tolerance is reached."""
    given = {"initial": ([1.0, 0.0, 0.0], [0.0, 0.5, 1.0]), "final": ([0.0, 1.0, 0.0], [-1.0, 0.0, 0.3]), "T": 1.0}
    few, many = (da.solve(SPHERE, **given, steps=n, certify=False) for n in (1000, 10_000))
    assert np.max(np.abs(np.sum(many.q**2, axis=1) - 1.0)) < 1e-14
    assert many.statistics.update < 1e-9
    ends = da.solve(SPHERE, **given, steps=2000, certify=False)
    errors = [np.max(np.abs(s.q[:: len(s.q) // 1000] - many.q[::10])) for s in (few, ends)]
    assert 3.8 < errors[0] / errors[1] < 4.4  # 4.1: the best is not exact either


def test_steps_to_what_is_not_finite_are_shortened():
    """√ of a negative number on the way."""
    root = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a - 50.0 * jnp.sqrt(q[0]), derivatives=2)
    s = da.solve(root, initial=([1.0], [-3.9]), final=([1.0], [3.9]), T=1.0, steps=160, throw=False)
    assert s.outcome is da.Outcome.SUCCESS
    assert np.all(np.isfinite(s.q))
    coarse = da.solve(root, initial=([1.0], [-3.9]), final=([1.0], [3.9]), T=1.0, steps=80)
    assert np.max(np.abs(s.q[::2] - coarse.q)) < 1e-2
