"""Runs in lanes against the same runs one by one: results, counts, outcomes, and that lanes do not touch one another."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import special

from dalembert.native import COUNTS, Cache, Sample, StepFunctions, compile_step, counts
from dalembert.native.llvm import cache as cache_module
from dalembert.native.llvm import cache as machine
from dalembert.native.llvm import elementary as mathematics
from dalembert.native.stepper import compiled
from dalembert.outcome import Outcome

CACHE = Cache(None)


def step_of(equation=None, **options) -> StepFunctions:
    """q ← q + h z with equation(z, q, t, h, p) = 0, s = z, multipliers 2z and force 3z; or what `options` say instead."""
    given = {
        "n": 1, "k": 1, "shapes": ((),),
        "residual": lambda z, q, s, t, h, held, p: equation(z, q, t, h, p[0]) - held,
        "guess": lambda q, s, t, h, p: s, "scale": lambda z, q, s, h, p: 1.0 + jnp.abs(z),
        "advance": lambda z, q, s, t, h, p: (h * z, z), "outputs": lambda z, q, s, t, h, held, p: (2 * z, 3 * z),
        "velocity": lambda s, p: s,
    }  # fmt: skip
    return StepFunctions(**{**given, **options})


class Batch:
    """Many runs of one step: in lanes by `together`, one by one by `apart`."""

    def __init__(self, step: StepFunctions, q, p, h=0.1, steps=300, every=7, s=0.3, t0=0.0, limit=25, law_every=1,
                 cache=CACHE):  # fmt: skip
        self.q, self.p = np.broadcast_arrays(np.asarray(q, float), np.asarray(p, float))
        self.n, self.steps, self.every, self.size = step.n, steps, every, len(self.q)
        sample = Sample(np.full(step.n, self.q[0]), np.full(step.k, s), t0, h, self.p[:1])
        self.code = compile_step(step, sample, cache)
        carry = self.code.layout.packed_carry.fields
        self.start = np.zeros((self.size, self.code.carry_size))
        for name, value in (("q", self.q[:, None]), ("s", s), ("failed_residual", np.nan)):
            self.start[:, carry[name].offset :][:, : carry[name].length] = value
        told = counts(until=steps, last=steps, every=every, limit=limit, law_every=law_every, target=min(every, steps))
        self.told = np.repeat(told[None], self.size, axis=0)
        self.inputs = np.array([self.code.inputs(t0, h, 1e-10, np.array([x])) for x in self.p])

    def _rows(self) -> np.ndarray:
        return np.full((self.size, -(-self.steps // self.every), self.code.row_size), -1.0)

    def together(self, threads: int | None = 1, lanes=slice(None)):
        carry, count, rows = self.start[lanes].copy(), self.told[lanes].copy(), self._rows()[lanes].copy()
        self.code.run_many(carry, count, self.inputs[lanes].copy(), rows, threads)
        return carry, count, rows

    def apart(self):
        carry, count, rows = self.start.copy(), self.told.copy(), self._rows()
        for i in range(self.size):
            self.code.run(carry[i], count[i], self.inputs[i], rows[i])
        return carry, count, rows


def agree(batch: Batch, tolerance: float = 1e-12) -> dict[str, np.ndarray]:
    """The batch in lanes is the batch one by one; returns the counts by name."""
    (carry, count, rows), (carry_, count_, rows_) = batch.together(), batch.apart()
    told = [COUNTS.index(name) for name in COUNTS if name not in ("until", "slow")]
    np.testing.assert_array_equal(count[:, told], count_[:, told])
    np.testing.assert_allclose(rows, rows_, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(carry, carry_, rtol=1e3 * tolerance, atol=1e3 * tolerance)
    return {name: count[:, i] for i, name in enumerate(COUNTS)}


CUBIC = step_of(lambda z, q, t, h, p: z + p * z**3 + jnp.sin(q + 0.5 * h * z) - 0.2 * jnp.cos(t))


@pytest.mark.parametrize("size", [1, 3, 16, 37])
def test_any_number_of_runs(size):
    found = agree(Batch(CUBIC, np.linspace(-2, 2, size), np.linspace(0.1, 1.5, size)))
    assert np.all(found["code"] == Outcome.SUCCESS)
    assert np.all(found["k"] == 300)
    assert np.all(found["iterations"] >= 300)


def test_linear_steps_and_shared_inputs():
    batch = Batch(step_of(lambda z, q, t, h, p: z + p * (q + h * z)), np.linspace(1, 2, 20), 2.0, steps=50, every=10)
    agree(batch)
    carry, count, rows = batch.start.copy(), batch.told.copy(), batch._rows()
    batch.code.run_many(carry, count, batch.inputs[:1].copy(), rows)
    exact = np.linspace(1, 2, 20)[:, None] * 1.2 ** -np.arange(10.0, 60, 10)
    np.testing.assert_allclose(rows[:, :, 0], exact, rtol=1e-13)


def partly_affine_step() -> StepFunctions:
    """A nonlinear unknown and two that follow linearly from it: 𝑧₀ by iteration, the others once.

    Their scale is 0, and no update would be small enough: they are never asked.
    """

    def residual(z, q, s, t, h, held, p):
        x, y, w = z
        return jnp.stack([x + p[0] * x**3 + q[0], y * (2 + x**2) - x + w, w - jnp.cos(x) * y - 1])

    return step_of(
        residual=residual, k=3, scale=lambda z, q, s, h, p: jnp.array([1.0, 0.0, 0.0]) * (1 + jnp.abs(z[0])),
        advance=lambda z, q, s, t, h, p: (h * z[:1], z), outputs=lambda z, q, s, t, h, held, p: (z, z[:1] * z[2]),
        velocity=lambda s, p: s[:1],
    )  # fmt: skip


def test_unknowns_that_follow_linearly():
    # Near enough to the guess for the pivots to be trusted: the pivoted solver asks for every unknown.
    batch = Batch(partly_affine_step(), np.linspace(-0.6, -0.1, 20), 0.7)
    found = agree(batch)
    assert np.all(found["code"] == Outcome.SUCCESS)
    assert np.all(found["iterations"] > found["k"])
    assert np.all(found["slow"] == 0)
    _, _, rows = batch.together()
    z = batch.code.layout.packed_row.unpack(rows)["multipliers"]
    np.testing.assert_allclose(z[..., 0] + 0.7 * z[..., 0] ** 3 + rows[..., 0] - 0.1 * z[..., 0], 0, atol=1e-9)
    np.testing.assert_allclose(z[..., 1] * (2 + z[..., 0] ** 2) - z[..., 0] + z[..., 2], 0, atol=1e-13)
    np.testing.assert_allclose(z[..., 2], np.cos(z[..., 0]) * z[..., 1] + 1, rtol=0, atol=1e-13)


FUNCTIONS = {
    "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "arcsin": lambda x: jnp.arcsin(x / 9), "tanh": jnp.tanh,
    "arccos": lambda x: jnp.arccos(x / 9), "arctan": jnp.arctan, "sinh": jnp.sinh, "cosh": jnp.cosh, "exp": jnp.exp,
    "arcsinh": jnp.arcsinh, "arccosh": lambda x: jnp.arccosh(1 + x * x), "arctanh": lambda x: jnp.arctanh(x / 9),
    "exp2": jnp.exp2, "expm1": jnp.expm1, "log": lambda x: jnp.log(1 + x * x), "log1p": lambda x: jnp.log1p(x * x),
    "cbrt": jnp.cbrt, "erf": special.erf, "erfc": special.erfc, "arctan2": lambda x: jnp.arctan2(x, 1.5),
    "power": lambda x: jnp.power(1 + x * x, 0.37), "fmod": lambda x: jnp.fmod(x, 0.7), "sign": jnp.sign,
    "gammaln": lambda x: special.gammaln(1.2 + x * x), "floor": jnp.floor, "sqrt": lambda x: jnp.sqrt(1 + x * x),
}  # fmt: skip


def test_elementary_functions_in_lanes():
    """z = f(q) in 23 lanes, for every function that needs a library, against JAX."""
    names = list(FUNCTIONS)
    step = step_of(
        residual=lambda z, q, s, t, h, held, p: z - jnp.stack([FUNCTIONS[x](q[0]) for x in names]), k=len(names),
        advance=lambda z, q, s, t, h, p: (jnp.zeros(1), z), outputs=lambda z, q, s, t, h, held, p: (z, jnp.zeros(1)),
        velocity=lambda s, p: s[:1],
    )  # fmt: skip
    q = np.linspace(-3.1, 4.2, 23)
    _, _, rows = Batch(step, q, 1.0, steps=1, every=1).together()
    at, length = 2, len(names)
    for i, name in enumerate(names):
        truth = jax.vmap(FUNCTIONS[name])(jnp.asarray(q))
        np.testing.assert_allclose(rows[:, 0, at : at + length][:, i], truth, rtol=4e-15, atol=4e-15, err_msg=name)


def test_every_lane_takes_its_own_side_of_a_branch():
    def residual(z, q, t, h, p):
        return z + jax.lax.cond(q[0] > 0.5, lambda x: jnp.log(x - 0.4) + p * z, lambda x: jnp.exp(-x) * z**3, q)

    agree(Batch(step_of(residual), np.linspace(-1, 3, 24), 0.4, steps=100))


def test_laws_reductions_and_thinning():
    step = step_of(
        lambda z, q, t, h, p: z + p * jnp.sin(q), law=lambda q, v, t, p: 0.3 * jnp.cos(q + t),
        reduce=lambda r, w, t, q, v, m, p: (jnp.stack([jnp.maximum(r[0], q[0]), r[1] + m[0]]), w), reduced=(2, 0),
    )  # fmt: skip
    agree(Batch(step, np.linspace(-1, 2, 21), np.linspace(0.5, 2, 21), every=11, law_every=4))


FAILING = step_of(
    lambda z, q, t, h, p: p * z**3 + z - jnp.where(p > 5, jnp.log(3.0 - q), 1.0),
    domain=lambda q, v, t, p: (q[0] < 4.0) | (p[0] < 2),
    stop=lambda q, v, t, p: (q[0] > 3.5) & (p[0] < 0.3),
)


def test_each_lane_has_its_own_outcome_and_changes_no_other():
    """p < 0.3: stopped; 2 < p < 5: leaves the domain; p > 5: log of a negative number; NaN; overflow; a lost root."""
    p = np.array([0.1, 0.5, 3.0, 8.0, np.nan, 1e308, -1.0, 1.0, 0.2, 4.0, 0.7, 0.9] * 3)
    batch = Batch(FAILING, np.linspace(0.2, 1.0, len(p)), p, steps=400, every=9)
    found = agree(batch)
    outcomes = {Outcome(int(c)) for c in found["code"]}
    assert outcomes >= {Outcome.SUCCESS, Outcome.STOPPED, Outcome.LEFT_DOMAIN, Outcome.NOT_FINITE, Outcome.NOT_CONVERGED}
    healthy = np.flatnonzero(found["code"] == Outcome.SUCCESS)
    carry, _, rows = batch.together()
    alone = batch.together(lanes=healthy)
    np.testing.assert_array_equal(carry[healthy], alone[0])
    np.testing.assert_array_equal(rows[healthy], alone[2])


def test_a_lane_whose_pivot_fails_is_finished_by_the_pivoted_solver():
    """The pivot chosen at the first state vanishes at q = 1, where the other entry takes over."""

    def residual(z, q, s, t, h, held, p):
        a = (q[0] - p[0]) ** 2
        return jnp.stack([a * z[0] + z[1] - 1.0, z[0] * 1.3 - a * z[1] - 1.0])

    step = step_of(
        residual=residual, k=2, scale=lambda z, q, s, h, p: 1 + jnp.abs(z),
        advance=lambda z, q, s, t, h, p: (jnp.full(1, 0.25), z), outputs=lambda z, q, s, t, h, held, p: (z, jnp.zeros(1)),
        velocity=lambda s, p: s[:1],
    )  # fmt: skip
    batch = Batch(step, np.zeros(20) - 0.5, np.where(np.arange(20) % 3 == 0, 1.0, 7.3), steps=20, every=1)
    found = agree(batch)
    assert np.all(found["code"] == Outcome.SUCCESS)


def test_threads_change_no_bit():
    batch = Batch(CUBIC, np.linspace(-2, 2, 100), np.linspace(0.1, 1.5, 100))
    one = batch.together(1)
    for threads in (2, 5, 1000, None):
        for a, b in zip(one, batch.together(threads), strict=True):
            np.testing.assert_array_equal(a, b)


def test_large_dense_steps_are_run_one_by_one():
    n = 30
    matrix = jnp.asarray(np.random.default_rng(0).standard_normal((n, n)) / 6 + np.eye(n) * 3)
    step = step_of(
        n=n, k=n, residual=lambda z, q, s, t, h, held, p: matrix @ z + z**3 - jnp.cos(q + p[0]),
        scale=lambda z, q, s, h, p: 1 + jnp.abs(z), outputs=lambda z, q, s, t, h, held, p: (z[:1], z),
    )  # fmt: skip
    batch = Batch(step, np.linspace(0, 1, 5), 0.3, steps=20)
    assert not batch.code.written_out
    agree(batch)


def test_arrays_of_wrong_sizes_are_refused():
    batch = Batch(CUBIC, np.zeros(4), 1.0, steps=10)
    with pytest.raises(ValueError, match="inputs: found 2 rows; 1 or 4"):
        batch.code.run_many(batch.start, batch.told, batch.inputs[:2].copy(), batch._rows())
    with pytest.raises(ValueError, match="in one piece"):
        batch.code.run_many(batch.start[:, :3].copy(), batch.told, batch.inputs, batch._rows())


@pytest.mark.skipif(not machine.host()[0].startswith("x86_64"), reason="names processors of this family")
@pytest.mark.parametrize(("processor", "features"), [("haswell", "+avx2,+avx,+fma"), ("x86-64", "+sse2")])
def test_older_processors(monkeypatch, processor, features):
    """Code for narrower vectors runs here too: eight lanes in several registers, and functions of four lanes or of one."""
    triple = machine.host()[0]
    for module in (machine, mathematics, cache_module):
        monkeypatch.setattr(module, "host", lambda: (triple, processor, features))
    monkeypatch.setattr(compiled, "lanes_of_processor", lambda: 8)
    mathematics.symbol.cache_clear()
    try:
        agree(Batch(CUBIC, np.linspace(-2, 2, 13), np.linspace(0.1, 1.5, 13), cache=Cache(None)))
    finally:
        mathematics.symbol.cache_clear()
