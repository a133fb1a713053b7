"""The native back-end and the JAX back-end run the same StepProgram: same states, same counts, same outcomes."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.gallery import chain, curvature_particle, nonholonomic_particle
from dalembert.native import CACHE, Unsupported
from dalembert.native.llvm import cache as machine


def controlled_pendulum() -> da.System:
    """A cart's pendulum whose wheel makes V = ½|v|² + … decrease: a Lyapunov constraint, with its lazy branch."""
    return da.System(
        lambda q, v: 0.5 * (2 * v[0] ** 2 + v[1] ** 2 + v[0] * v[1]) + jnp.cos(q[0]),
        da.Lyapunov(lambda q, v: 0.5 * (v @ v) + v[0] * v[1] * 0.2 + 2 - 2 * jnp.cos(q[0]) + 0.5 * q[1] ** 2,
                    lambda q, v: 0.1 * v[1] ** 2, actuated=1),
    )  # fmt: skip


@pytest.fixture
def both():
    """simulate by both back-ends: (native, jax)."""

    def run(*arguments, **options):
        return [
            da.simulate(*arguments, throw=False, solver=da.Solver(backend=backend), **options)
            for backend in ("native", "jax")
        ]

    return run


def compare(native: da.Path, jax: da.Path, tolerance: float):
    assert native.outcome == jax.outcome
    for name in ("t", "q", "t_velocity", "v", "t_multipliers", "multipliers", "constraint_forces"):
        a, b = np.asarray(getattr(native, name)), np.asarray(getattr(jax, name))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * (1 + np.max(np.abs(b), initial=0)), err_msg=name)
    for name in ("crossings", "failed_step"):
        assert int(getattr(native.statistics, name)) == int(getattr(jax.statistics, name)), name


EPS = np.finfo(float).eps
START = ([1.0, 0.0, 0.0], [0.5, 1.0, 0.0])
SYSTEMS = {
    "curvature particle": (curvature_particle.curvature_particle, [0.0, 0.0], [1.0, 1.0], 0.1, 1e-11),
    "nonholonomic particle": (lambda: nonholonomic_particle.nonholonomic_particle(1.0), *START, 0.05, 1e-12),
    "chain of three rods": (lambda: chain.chain(3), chain.slanted(3), np.zeros(6), 0.01, 1e-11),
}


@pytest.mark.parametrize("form", [None, "nodes"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_thousand_steps(both, name, form):
    build, q0, v0, h, tolerance = SYSTEMS[name]
    options = {"h": h, "steps": 1000, "save": da.Save(every=7), "scheme": form and da.Scheme(form)}
    native, jax = both(build(), q0, v0, **options)
    compare(native, jax, tolerance)
    # How far rounding moves the residuals at which Newton's method ends, and the number of its steps: what other last bits
    # of the beginning change in them.
    nudged = [
        da.simulate(build(), np.asarray(q0) * (1 + k * EPS), v0, solver=da.Solver(backend="jax"), **options)
        for k in (-8, -4, 4, 8)
    ]
    residuals, iterations = (
        np.array([float(getattr(path.statistics, name)) for path in (jax, *nudged)]) for name in ("residual", "iterations")
    )
    if name == "nonholonomic particle":  # v_y first, then all else: two linear systems, each solved once
        assert int(native.statistics.iterations) == int(native.steps_done)
    else:
        assert abs(int(native.statistics.iterations) - iterations[0]) <= 5 + 4 * np.ptp(iterations)
    # The native run counts the residual of what it iterates; unknowns that follow linearly are not evaluated again.
    bound = 4 * np.ptp(residuals) + 1e-13
    assert native.statistics.residual <= residuals[0] + bound
    if name == "curvature particle":
        np.testing.assert_allclose(native.statistics.residual, residuals[0], rtol=0, atol=bound)


def test_lyapunov_constraint(both):
    native, jax = both(controlled_pendulum(), [0.4, 0.0], [0.3, 0.5], h=0.01, steps=200)
    compare(native, jax, 1e-9)


def test_callbacks(both):
    """Stop, domain, sampled feedback and reduction together."""
    options = {
        "stop": da.Stop(when=lambda q, v, p: q[0] > 3.0, domain=lambda q, v, p: q[0] < 50.0),
        "feedback": da.SampledFeedback(lambda q, v, p: jnp.array([0.1 * v[1], 0.2, 0.0]), every=3),
        "save": da.Save(every=2, reduce=(
            lambda r, t, q, v, m: {"most": jnp.maximum(r["most"], q[0]), "sum": r["sum"] + m},
            {"most": 0.0, "sum": jnp.zeros(1)},
        )),
    }  # fmt: skip
    native, jax = both(nonholonomic_particle.nonholonomic_particle(1.0), *START, h=0.05, steps=300, **options)
    compare(native, jax, 1e-12)
    np.testing.assert_allclose(native.feedback, jax.feedback, rtol=0, atol=1e-13)
    for name in ("most", "sum"):
        np.testing.assert_allclose(native.reduced[name], jax.reduced[name], rtol=0, atol=1e-12)


def test_leaving_the_domain(both):
    inside = lambda q, v, p: q[0] > 0.5  # noqa: E731
    native, jax = both(
        nonholonomic_particle.nonholonomic_particle(1.0),
        *START,
        h=0.05,
        steps=300,
        save=da.Save(every=50),
        stop=da.Stop(domain=inside),
    )
    assert native.outcome == da.Outcome.LEFT_DOMAIN
    compare(native, jax, 1e-12)


def losing_its_root() -> da.System:
    """(a - ½)² = ¼ - q has no root once q > ¼."""
    phi = lambda q, v, a: (a[0] - 0.5) ** 2 - 0.25 + q[0]  # noqa: E731
    return da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(phi, reactions=lambda q, v, a: jnp.array([1.0, 0.0])))


def losing_its_reaction() -> da.System:
    """The only reaction that can hold the weight vanishes beyond q₀ = 1.03."""
    row = lambda q, v: jnp.stack([jnp.zeros(()), jnp.where(q[0] > 1.03, 0.0, 1.0)])  # noqa: E731
    return da.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], da.Nonholonomic(lambda q, v: v[1], reactions=row))


def leaving_where_it_is_defined() -> da.System:
    return da.System(lambda q, v: 0.5 * v @ v + (1.5 - q[0]) ** 1.5)


FAILING = {
    "no root": (losing_its_root, [0.0, 0.0], [1.0, 0.0], da.Outcome.NO_SOLUTION),
    "not finite": (leaving_where_it_is_defined, [1.0], [5.0], da.Outcome.NOT_FINITE),
    "singular": (losing_its_reaction, [0.0, 1.0], [1.0, 0.0], da.Outcome.SINGULAR),
}


@pytest.mark.parametrize("name", FAILING)
def test_failures_are_the_same(both, name):
    build, q0, v0, outcome = FAILING[name]
    native, jax = both(build(), q0, v0, h=0.125, steps=400)
    assert native.outcome == jax.outcome == outcome
    assert native.steps == jax.steps


def test_nothing_is_compiled_again_for_other_numbers():
    system = nonholonomic_particle.nonholonomic_particle(1.0)
    fresh = da.System(
        lambda q, v, p: system.lagrangian(q, v, p),
        da.Nonholonomic(lambda q, v, p: nonholonomic_particle.constraint(q, v, p)),
        parameters={"c": 1.0},
    )
    da.simulate(system, *START, h=0.05, steps=10)
    before = CACHE.compilations
    da.simulate(system, [1.1, 0.2, 0.0], [0.5, 1.0, 0.1], h=0.06, steps=23, save=da.Save(every=3))
    da.simulate(fresh, [1.1, 0.2, 0.0], [0.5, 1.0, 0.1], h=0.06, steps=23)  # the same in other lambdas
    curved = curvature_particle.curvature_particle()
    da.simulate(curved, [0.0, 0.0], [1.0, 1.0], h=0.05, steps=10)
    middle = CACHE.compilations
    da.simulate(curved.replace(m=2.0, k=0.5), [0.0, 0.0], [1.0, 1.0], h=0.05, steps=10)
    assert middle <= before + 1
    assert CACHE.compilations == middle


TERMS = [
    lambda q: jnp.cos(q[0]),
    lambda q: q[0] * q[1] ** 2,
    lambda q: 1 / (2 + q[1] ** 2),
    lambda q: jnp.sin(q[0] - q[2]) * q[1],
]
ROWS = [
    lambda q: jnp.array([q[1], 0.3, 1.0]),
    lambda q: jnp.array([jnp.sin(q[0]), 1.0, 0.2]),
    lambda q: jnp.array([1.0, q[2] / (1 + q[0] ** 2), 0.5]),
]


@functools.cache
def drawn(linear: bool) -> da.System:
    """Weights, the row of the constraint and its level are parameters: one program for all examples."""

    def lagrangian(q, v, p):
        return 0.5 * v @ v + 0.1 * v[0] ** 2 * jnp.cos(q[1]) - sum(p["w"][i] * f(q) for i, f in enumerate(TERMS))

    def phi(q, v, p):
        row = sum(p["row"][i] * row(q) for i, row in enumerate(ROWS))
        return row @ v + (0.0 if linear else 0.1 * v @ v - p["level"])

    return da.System(lagrangian, da.Nonholonomic(phi), parameters={"w": np.zeros(4), "row": np.zeros(3), "level": 0.0})


@settings(max_examples=4, deadline=None, derandomize=True, phases=(Phase.generate,))
@given(
    weights=st.lists(st.sampled_from([0.0, 0.5, -0.7]), min_size=4, max_size=4), which=st.integers(0, 2),
    linear=st.booleans(), v0=st.lists(st.floats(-1, 1, width=16), min_size=3, max_size=3),
)  # fmt: skip
def test_random_systems(weights, which, linear, v0):
    q0, v = np.array([0.3, -0.2, 0.1]), np.array(v0)
    row = np.asarray(ROWS[which](q0))
    v = v - row * (row @ v) / (row @ row)
    system = drawn(linear).replace(w=weights, row=np.eye(3)[which], level=0.1 * v @ v)
    native, jax = (
        da.simulate(system, q0, v, h=0.02, steps=60, throw=False, solver=da.Solver(backend=b)) for b in ("native", "jax")
    )
    compare(native, jax, 1e-11)


def test_what_cannot_be_translated_runs_on_jax_with_one_warning():
    system = da.System(lambda q, v: 0.5 * v @ v - jnp.sort(q) @ jnp.array([0.5, 1.5]))
    run = lambda backend: da.simulate(system, [0.0, 1.0], [0.0, 0.1], h=0.1, steps=3, solver=da.Solver(backend=backend))  # noqa: E731
    with pytest.warns(
        UserWarning, match=r"because of `jnp.sort\(q\)` \(test_agreement.py, line \d+\) in lagrangian: "
    ) as told:
        paths = [run("native"), run("native")]
    assert len(told) == 1
    np.testing.assert_array_equal(paths[0].q, run("jax").q)


def test_a_huge_array_runs_on_jax_with_one_warning():
    huge = jnp.linspace(1.0, 2.0, 150_000)
    system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * jnp.mean(huge) * q @ q)
    with pytest.warns(UserWarning, match="closes over an array of 150000 numbers") as told:
        paths = [da.simulate(system, [1.0], [0.0], h=0.1, steps=3, solver=da.Solver(backend="native")) for _ in range(2)]
    assert len(told) == 1
    np.testing.assert_array_equal(
        paths[0].q, da.simulate(system, [1.0], [0.0], h=0.1, steps=3, solver=da.Solver(backend="jax")).q
    )


def test_a_refused_processor_runs_on_jax_with_one_warning(monkeypatch):
    def refuse():
        raise Unsupported("llvmlite", "cannot be used here: no such target")

    monkeypatch.setattr(machine, "binding", refuse)
    monkeypatch.setattr(CACHE, "_loaded", {}, raising=False)
    system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q - 0.1 * jnp.sum(q**4))
    with pytest.warns(UserWarning, match="because of llvmlite: cannot be used here: no such target") as told:
        paths = [da.simulate(system, [1.0], [0.0], h=0.1, steps=3, solver=da.Solver(backend="native")) for _ in range(2)]
    assert len(told) == 1
    np.testing.assert_array_equal(
        paths[0].q, da.simulate(system, [1.0], [0.0], h=0.1, steps=3, solver=da.Solver(backend="jax")).q
    )


def test_choice_of_the_back_end():
    system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    paths = [
        da.simulate(system, [1.0], [0.0], h=0.1, steps=20, solver=da.Solver(backend=backend))
        for backend in ("jax", "native")
    ]
    np.testing.assert_allclose(paths[0].q, paths[1].q, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="backend: found 'gpu'"):
        da.simulate(system, [1.0], [0.0], h=0.1, steps=1, solver=da.Solver(backend="gpu"))
