"""The compiled run on steps written here, without mechanics: iteration, statistics, outcomes, rows, callbacks."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.native import COUNTS, Cache, Sample, StepFunctions, compile_step, counts
from dalembert.outcome import Outcome


def scalar_step(residual, **changes) -> StepFunctions:
    """q ← q + h z with residual(z, q, t, h, p) = 0, s = the last z, multiplier 2z and force 3z."""
    step = StepFunctions(
        n=1, k=1, shapes=((),),
        residual=lambda z, q, s, t, h, held, p: residual(z, q, t, h, p[0]) - held,
        guess=lambda q, s, t, h, p: s,
        scale=lambda z, q, s, h, p: 1.0 + jnp.abs(z),
        advance=lambda z, q, s, t, h, p: (h * z, z),
        outputs=lambda z, q, s, t, h, held, p: (2 * z, 3 * z),
        velocity=lambda s, p: s,
    )  # fmt: skip
    return dataclasses.replace(step, **changes)


@dataclasses.dataclass
class Result:
    carry: dict[str, np.ndarray]
    count: dict[str, int]
    rows: dict[str, np.ndarray]

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.count["code"])


def run(step, q=1.0, s=0.0, t0=0.0, h=0.1, p=1.0, steps=10, every=1, limit=25, law_every=1, tolerance=1e-10, cache=None):
    """Compile and run from (q, s)."""
    sample = Sample(np.atleast_1d(q).astype(float), np.atleast_1d(s).astype(float), t0, h, np.atleast_1d(p).astype(float))
    code = compile_step(step, sample, cache or Cache(None))
    carry = np.zeros(code.carry_size)
    layout = code.layout
    for name, value in (("q", sample.q), ("s", sample.s), ("failed_residual", np.nan)):
        field = layout.packed_carry.fields[name]
        carry[field.offset : field.offset + field.length] = value
    numbers = counts(until=steps, last=steps, every=every, limit=limit, law_every=law_every, target=min(every, steps))
    rows = np.full((math.ceil(steps / every) + 1, layout.packed_row.size), np.nan)
    code.run(carry, numbers, code.inputs(t0, h, tolerance, sample.p), rows)
    rows = rows[: numbers[COUNTS.index("rows")]]
    return code, Result(
        {k: carry[f.offset : f.offset + f.length].copy() for k, f in layout.packed_carry.fields.items()},
        dict(zip(COUNTS, numbers.tolist(), strict=True)),
        {k: rows[:, f.offset : f.offset + f.length] for k, f in layout.packed_row.fields.items()},
    )


def test_a_linear_step_is_solved_by_one_evaluation():
    """Implicit Euler for q′ = -p q: z = -p (q + h z), so that q ← q / (1 + p h)."""
    code, found = run(scalar_step(lambda z, q, t, h, p: z + p * (q + h * z)), p=2.0, steps=20)
    assert code.linear
    assert found.outcome == Outcome.SUCCESS
    assert found.count["iterations"] == 20
    np.testing.assert_allclose(found.rows["q"][:, 0], 1.2 ** -np.arange(1.0, 21), rtol=1e-14)


def test_a_nonlinear_step_is_iterated():
    """Implicit Euler for q′ = -p q³."""
    code, found = run(scalar_step(lambda z, q, t, h, p: z + p * (q + h * z) ** 3), steps=50)
    q = np.concatenate([[1.0], found.rows["q"][:, 0]])
    assert not code.linear
    np.testing.assert_allclose(q[:-1] - 0.1 * q[1:] ** 3, q[1:], rtol=0, atol=1e-14)
    assert 50 < found.count["iterations"] <= 200
    assert 1 < found.count["max_iterations"] <= 6
    assert found.count["slow"] == 0
    assert 0 < found.carry["residual"][0] < 1e-5
    np.testing.assert_array_equal(found.rows["k"][:, 0], np.arange(1, 51))
    np.testing.assert_allclose(found.rows["multipliers"], 2 * found.rows["v"])
    np.testing.assert_allclose(found.rows["force"], 3 * found.rows["v"])


def test_time_step_and_parameters_are_arguments_of_one_code():
    cache = Cache(None)
    step = scalar_step(lambda z, q, t, h, p: z - p * t)
    for h, p, t0, steps in ((0.1, 1.0, 0.0, 3), (0.2, 3.0, 1.0, 5)):
        _, found = run(step, q=0.0, h=h, p=p, t0=t0, steps=steps, cache=cache)
        times = t0 + h * np.arange(steps)
        np.testing.assert_allclose(found.rows["q"][:, 0], np.cumsum(h * p * times), rtol=0, atol=4e-14)
    assert cache.compilations == 2  # the step and the pivoted solver


@pytest.mark.parametrize(
    ("steps", "every", "nodes"), [(10, 1, range(1, 11)), (10, 4, (4, 8, 10)), (10, 10, (10,)), (3, 7, (3,))]
)
def test_rows_are_thinned(steps, every, nodes):
    _, found = run(scalar_step(lambda z, q, t, h, p: z + q), steps=steps, every=every)
    np.testing.assert_array_equal(found.rows["k"][:, 0], list(nodes))
    np.testing.assert_allclose(found.rows["q"][:, 0], 0.9 ** np.array(list(nodes), float), rtol=1e-14)
    np.testing.assert_allclose(found.rows["v"], found.rows["multipliers"] / 2)


def test_a_stop_condition_ends_the_run_after_its_step():
    step = scalar_step(lambda z, q, t, h, p: z - 1.0, stop=lambda q, v, t, p: q[0] > 1.25)
    _, found = run(step, every=100, steps=1000)
    assert found.outcome == Outcome.STOPPED
    assert found.count["k"] == 3
    np.testing.assert_allclose(found.rows["q"][-1, 0], 1.3)


def test_leaving_the_domain_refuses_the_step():
    step = scalar_step(lambda z, q, t, h, p: z - 1.0, domain=lambda q, v, t, p: jnp.array([q[0] < 1.25, t < 100]))
    _, found = run(step, every=100, steps=1000)
    assert found.outcome == Outcome.LEFT_DOMAIN
    assert found.count["k"] == 2
    np.testing.assert_allclose(found.carry["q"], 1.2)
    np.testing.assert_allclose(found.rows["q"][-1, 0], 1.2)
    np.testing.assert_allclose(found.rows["multipliers"][-1, 0], 2.0)


FAILURES = {
    "NaN from the start": (lambda z, q, t, h, p: z + jnp.sqrt(q - 5), Outcome.NOT_FINITE, 0),
    "NaN later": (lambda z, q, t, h, p: z - 1 + 1e-300 * jnp.log(1.35 - q), Outcome.NOT_FINITE, 4),
    "overflow": (lambda z, q, t, h, p: z - jnp.exp(400 * t), Outcome.NOT_FINITE, 18),
    "infinite slope": (lambda z, q, t, h, p: jnp.sqrt(jnp.abs(z)) + 1, Outcome.NOT_FINITE, 0),
    "singular": (lambda z, q, t, h, p: 0 * z + 1e-30 * z * (q - q) + q, Outcome.SINGULAR, 0),
    "no root": (lambda z, q, t, h, p: z**2 + 1 + 0.1 * jnp.sin(z), Outcome.NOT_CONVERGED, 0),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures(name):
    residual, outcome, last = FAILURES[name]
    _, found = run(scalar_step(residual), steps=30, s=0.0 if name == "infinite slope" else 0.5)
    assert found.outcome == outcome
    assert found.count["k"] == last
    assert len(found.rows["q"]) == last
    assert np.isfinite(found.carry["q"]).all()


def test_an_exact_root_of_a_singular_system_is_accepted():
    _, found = run(scalar_step(lambda z, q, t, h, p: z**3), steps=5)
    assert found.outcome == Outcome.SUCCESS
    assert found.count["slow"] == 5


def test_a_sampled_law_is_held_in_between():
    step = scalar_step(lambda z, q, t, h, p: z, law=lambda q, v, t, p: q * 0 + t)
    _, found = run(step, law_every=3, steps=7)
    np.testing.assert_allclose(found.rows["held_force"][:, 0], [0, 0, 0, 0.3, 0.3, 0.3, 0.6], rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.rows["v"], found.rows["held_force"], rtol=0, atol=1e-14)


def test_a_reduction_over_all_steps():
    step = scalar_step(
        lambda z, q, t, h, p: z - 1.0,
        reduce=lambda r, w, t, q, v, m, p: (jnp.stack([jnp.maximum(r[0], t), r[1] + q[0], r[2] + m[0]]), w), reduced=(3, 0),
    )  # fmt: skip
    _, found = run(step, every=100)
    np.testing.assert_allclose(found.carry["reduced"], [1.0, sum(1 + 0.1 * k for k in range(1, 11)), 20.0], rtol=1e-14)


def test_changes_of_sign_are_counted():
    step = scalar_step(lambda z, q, t, h, p: z - 1.0, factor=lambda z, q, s, t, h, p: jnp.sin(10 * q[0] + 0.5))
    _, found = run(step, steps=100)
    signs = np.sign(np.sin(10 * (1 + 0.1 * np.arange(100)) + 0.5))
    assert found.count["crossings"] == np.sum(signs[1:] != signs[:-1])


def test_positions_are_summed_with_compensation():
    """10⁵ increments of 10⁻¹⁷ on top of 1: lost one by one, kept by the compensation."""
    _, found = run(scalar_step(lambda z, q, t, h, p: z - 1e-16), steps=100_000, every=100_000)
    np.testing.assert_allclose(found.rows["q"][-1, 0] - 1, 1e-12, rtol=1e-3)


def test_a_large_dense_system_is_solved_in_loops():
    """z = -(1 + p B)⁻¹ q with a full 45 × 45 matrix: too much to be written out."""
    n, rng = 45, np.random.default_rng(0)
    matrix = rng.standard_normal((n, n)) / n + np.eye(n)
    step = StepFunctions(
        n=n, k=n, shapes=((n, n),),
        residual=lambda z, q, s, t, h, held, p: p[0] @ z + q + 0.01 * z**3,
        guess=lambda q, s, t, h, p: s,
        scale=lambda z, q, s, h, p: jnp.full_like(z, 1.0),
        advance=lambda z, q, s, t, h, p: (h * z, z),
        outputs=lambda z, q, s, t, h, held, p: (z[:1], z),
        velocity=lambda s, p: s,
    )  # fmt: skip
    q = rng.standard_normal(n)
    code, found = run(step, q=q, s=np.zeros(n), p=matrix.ravel(), steps=5)
    assert not code.written_out
    assert found.outcome == Outcome.SUCCESS
    z, before = found.rows["v"][-1], found.rows["q"][-2]
    np.testing.assert_allclose(matrix @ z + before + 0.01 * z**3, 0, atol=1e-13)
