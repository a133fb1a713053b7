"""ensemble against single runs and against the JAX back-end; the native run inside jit, vmap, scan and grad."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.native import CACHE, TOLD
from dalembert.native.xla import _HANDLES
from dalembert.outcome import Outcome

PARTICLE = ENTRIES["curvature_particle"]
PLAIN = da.System(
    lambda q, v, p: 0.5 * p["m"] * v @ v,
    da.SecondOrder(
        lambda q, v, a, p: (v[0] * a[1] - a[0] * v[1]) / jnp.linalg.norm(v) ** 3 - p["k"],
        reactions=lambda q, v, a, p: jnp.array([v[1], -v[0]]),
    ),
    parameters={"m": 1.0, "k": 1.0},
)
SPEEDS = np.array([1.0, 1.0]) * np.linspace(0.5, 2, 21)[:, None]
CURVATURES = np.linspace(0.5, 6.0, 21)
ARRAYS = ("t", "q", "t_velocity", "v", "t_multipliers", "multipliers", "constraint_forces")


def same(lane: da.Path, single: da.Path, tolerance: float) -> None:
    for name in ARRAYS:
        a, b = np.asarray(getattr(lane, name)), np.asarray(getattr(single, name))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * (1 + np.max(np.abs(b), initial=0)), err_msg=name)
    assert lane.steps == single.steps
    for name in ("max_iterations", "crossings", "failed_step"):
        assert int(getattr(lane.statistics, name)) == int(getattr(single.statistics, name)), name


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_lanes_are_the_single_runs(name):
    """Seven copies of a gallery run and a shorter axis of nothing else: every lane is `simulate`'s path."""
    entry = ENTRIES[name]
    q0, v0 = np.array(entry.q0, float), np.array(entry.v0, float)
    batch = da.ensemble(entry.system, np.repeat(q0[None], 7, 0), v0, h=entry.h, steps=60, save=da.Save(every=4))
    single = da.simulate(entry.system, q0, v0, h=entry.h, steps=60, save=da.Save(every=4))
    for i in (0, 6):
        same(batch.lane(i), single, 1e-9 if "pendulum" in name else 1e-12)


@pytest.mark.parametrize("name", ["spherical_pendulum", "chaplygin_ball"])
def test_data_near_the_constraints_change_no_other_run(name):
    """Data that are consistent, but not to rounding, take another way to (a, λ) than those beside them."""
    entry = ENTRIES[name]
    q0, v0 = np.repeat(np.array(entry.q0, float)[None], 3, 0), np.repeat(np.array(entry.v0, float)[None], 3, 0)
    exact = da.ensemble(entry.system, q0, v0, h=entry.h, steps=40)
    v0[1] += 1e-11 * (1 + np.arange(v0.shape[1]))
    near = da.ensemble(entry.system, q0, v0, h=entry.h, steps=40)
    for i in (0, 2):
        assert np.array_equal(near.q[i], exact.q[i])
        assert np.array_equal(near.multipliers[i], exact.multipliers[i])
    same(near.lane(1), da.simulate(entry.system, q0[1], v0[1], h=entry.h, steps=40), 1e-12)
    assert 0.0 < np.abs(near.v[1] - exact.v[1]).max() < 1e-8


def test_initial_states_and_parameters():
    batch = da.ensemble(PLAIN, [0.0, 0.0], SPEEDS, parameters={"k": CURVATURES}, h=0.05, steps=80)
    assert batch.q.shape == (21, 81, 2)
    assert batch.multipliers.shape == (21, 80, 1)
    for i in (0, 7, 20):
        single = da.simulate(PLAIN.replace(k=CURVATURES[i]), [0.0, 0.0], SPEEDS[i], h=0.05, steps=80, throw=False)
        same(batch.lane(i), single, 1e-12)


def test_outcomes_are_each_lanes_own_and_those_of_jax():
    """A circle of radius 1/k cannot be followed with steps longer than it."""
    options = {"parameters": {"k": CURVATURES}, "h": 0.1, "steps": 40}
    native, jax_ = (
        da.ensemble(PLAIN, [0.0, 0.0], SPEEDS, solver=da.Solver(backend=b), **options) for b in ("native", "jax")
    )
    np.testing.assert_array_equal(native.code, jax_.code)
    np.testing.assert_array_equal(native.steps_done, jax_.steps_done)
    good = np.flatnonzero(np.asarray(native.code) == Outcome.SUCCESS)
    assert 0 < len(good) < 21
    np.testing.assert_allclose(native.q[good], jax_.q[good], rtol=0, atol=1e-12)
    alone = da.ensemble(PLAIN, [0.0, 0.0], SPEEDS[good], parameters={"k": CURVATURES[good]}, h=0.1, steps=40)
    for name in ARRAYS:  # not one bit depends on the lanes that fail
        np.testing.assert_array_equal(np.asarray(getattr(native, name))[good], getattr(alone, name), err_msg=name)
    failed = native.lane(int(np.flatnonzero(np.asarray(native.code))[0]))
    assert failed.outcome == Outcome.NOT_CONVERGED
    assert len(failed.t) == failed.steps + 1
    assert np.all(np.isfinite(failed.q))
    assert "not converged" in native.describe()


def test_callbacks_and_thinning_in_a_batch():
    options = {
        "stop": da.Stop(when=lambda q, v, p: q[0] > 1.2, domain=lambda q, v, p: q[1] < 2.9),
        "save": da.Save(every=7, reduce=(lambda r, t, q, v, m: {"far": jnp.maximum(r["far"], q @ q), "n": r["n"] + 1},
                                         {"far": 0.0, "n": 0})),
        "feedback": da.SampledFeedback(lambda q, v, p: 0.1 * jnp.array([-v[1], v[0]]), every=3),
    }  # fmt: skip
    batch = da.ensemble(PLAIN, [0.0, 0.0], SPEEDS, parameters={"k": 0.2 * CURVATURES}, h=0.05, steps=60, **options)
    assert len(set(np.asarray(batch.code).tolist())) == 3
    for i in (0, 5, 12, 20):
        single = da.simulate(
            PLAIN.replace(k=0.2 * CURVATURES[i]), [0, 0], SPEEDS[i], h=0.05, steps=60, throw=False, **options
        )
        lane = batch.lane(i)
        same(lane, single, 1e-12)
        assert lane.outcome == single.outcome
        np.testing.assert_allclose(lane.feedback, single.feedback, rtol=0, atol=1e-12)
        assert int(lane.reduced["n"]) == int(single.reduced["n"])
        np.testing.assert_allclose(lane.reduced["far"], single.reduced["far"], rtol=1e-12)


@pytest.mark.parametrize("every", [20, None])
def test_runs_that_end_early_with_as_many_rows_as_the_others_have_times_of_their_own(every):
    """Between the last saved state and the end of the others: the number of rows does not tell."""
    options = {"h": 0.05, "steps": 60, "save": da.Save(every=every), "stop": lambda q, v, p: q[0] > 1.2}
    batch = da.ensemble(PLAIN, [0.0, 0.0], SPEEDS, parameters={"k": 0.2 * CURVATURES}, **options)
    ended = np.unique(batch.steps_done[np.asarray(batch.code) == Outcome.STOPPED])
    assert np.any((ended > 40) & (ended < 60))
    assert np.any(np.asarray(batch.code) == Outcome.SUCCESS)
    np.testing.assert_array_equal(batch.t[:, -1], 0.05 * np.asarray(batch.steps_done))
    np.testing.assert_array_equal(batch.t_velocity[:, -1], batch.t[:, -1])


def test_a_run_without_a_step_has_the_nodes_before_it_that_are_saved():
    """In a state of two nodes with the first of every three saved: the second one is no row of a run, nor of a batch."""
    options = {
        "h": 0.05,
        "steps": 7,
        "save": da.Save(every=3),
        "scheme": da.Scheme("nodes"),
        "stop": da.Stop(domain=lambda q, v, p: q[0] < 1.0),
    }
    batch = da.ensemble(PLAIN, [[0.0, 0.0], [0.99, 0.0]], [1.0, 0.0], parameters={"k": [0.1, 0.2]}, **options)
    single = da.simulate(PLAIN.replace(k=0.2), [0.99, 0.0], [1.0, 0.0], throw=False, **options)
    assert (single.steps, batch[0].steps) == (0, 6)
    for name in ARRAYS:
        assert getattr(batch[1], name).shape == getattr(single, name).shape
    np.testing.assert_allclose(batch[1].q, single.q, rtol=0, atol=1e-14)


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_a_run_with_no_step_to_make_ends_with_its_last_node(backend):
    system = da.DiscreteSystem(lambda a, b: 0.5 * (b - a) @ (b - a) / 0.1 - 0.1 * jnp.cos(0.5 * (a + b)).sum())
    nodes, options = [[0.0], [0.01]], {"h": 0.1, "steps": 1, "save": da.Save(every=3), "solver": da.Solver(backend=backend)}
    for path in (
        da.simulate(system, start=da.Start(nodes=nodes), **options),
        da.ensemble(system, start=da.Start(nodes=[nodes, nodes]), **options)[1],
    ):
        assert (path.outcome, path.steps) == (Outcome.SUCCESS, 0)
        np.testing.assert_array_equal(path.t, [0.0, 0.1])
        np.testing.assert_array_equal(path.q, nodes)
        np.testing.assert_allclose(path.v, [[0.1]])
        assert path.multipliers.shape == (0, 0)


def test_discrete_systems_and_last_states():
    system = da.DiscreteSystem(lambda a, b: 0.5 * (b - a) @ (b - a) / 0.1 - 0.1 * jnp.cos(0.5 * (a + b)).sum())
    nodes = np.array([[[0.0], [0.01 * i]] for i in range(5)])
    batch = da.ensemble(system, start=da.Start(nodes=nodes), h=0.1, steps=50, save=da.Save(every=None))
    for i in range(5):
        single = da.simulate(system, start=da.Start(nodes=nodes[i]), h=0.1, steps=50, save=da.Save(every=None))
        np.testing.assert_allclose(batch.q[i, -1], single.q[-1], rtol=0, atol=1e-13)


def test_nothing_is_compiled_again_for_other_numbers():
    run = lambda n, h, steps: da.ensemble(PLAIN, [0, 0], SPEEDS[:n], h=h, steps=steps)  # noqa: E731
    run(9, 0.05, 20)
    before = CACHE.compilations
    run(17, 0.04, 33)
    da.ensemble(PLAIN, np.zeros((6, 2)), [1.0, 0.5], parameters={"m": np.linspace(1, 2, 6)}, h=0.05, steps=20)
    assert CACHE.compilations == before


def test_mistakes_are_named():
    many, one = np.zeros((3, 2)), [1.0, 1.0]
    run = lambda *data, **options: da.ensemble(PLAIN, *data, **{"h": 0.1, "steps": 5, **options})  # noqa: E731
    with pytest.raises(ValueError, match="none has an axis of runs"):
        run([0.0, 0.0], one)
    with pytest.raises(ValueError, match="axes of different lengths"):
        run(many, np.ones((4, 2)))
    with pytest.raises(ValueError, match="parameters: found x; the parameters are"):
        run(many, one, parameters={"x": 1.0})
    with pytest.raises(ValueError, match="v0: found nan at index 2, 1"):
        run(many, np.array([one, one, [1.0, np.nan]]))
    with pytest.raises(ValueError, match=r"q0: found shape \(2, 3, 2\)"):
        run(np.zeros((2, 3, 2)), one)
    with pytest.raises(ValueError, match="threads: found 0"):
        run(many, one, solver=da.Solver(threads=0))
    with pytest.raises(ValueError, match="length 0"):
        run(np.zeros((0, 2)), one)
    with pytest.raises(ValueError, match="lane: this is a single path"):
        da.simulate(PLAIN, [0, 0], one, h=0.1, steps=2).lane(0)
    with pytest.raises(TypeError, match=r"there take jax\.vmap of simulate"):
        jax.jit(lambda v0: run(many, v0).q)(np.array(one))
    rolling = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0]))
    with pytest.raises(da.InconsistentDataError, match="in run 1 and not 0"):
        da.ensemble(rolling, np.ones((2, 3)), np.array([[1.0, 0, 1.0], [1.0, 0, 0.9]]), h=0.1, steps=5)


# The native run inside JAX's transformations.


def final(v0, k, backend="native", steps=30):
    return da.simulate(PLAIN.replace(k=k), jnp.zeros(2), v0, h=0.05, steps=steps, solver=da.Solver(backend=backend)).q[-1]


def test_inside_transformations():
    v, ks = jnp.array([1.0, 1.0]), jnp.linspace(0.5, 1.5, 6).reshape(2, 3)
    twice = jax.jit(jax.vmap(jax.vmap(final, (None, 0)), (None, 0)))(v, ks)
    for i in np.ndindex(2, 3):
        np.testing.assert_allclose(twice[i], final(v, ks[i], "jax"), rtol=0, atol=1e-13)

    def shoot(carry, k):
        q = final(carry, k)
        return carry + 0.01 * q, q

    _, native = jax.lax.scan(shoot, v, ks.ravel())
    carry = v
    for k, q in zip(ks.ravel(), native, strict=True):
        np.testing.assert_allclose(q, final(carry, k, "jax"), rtol=0, atol=1e-12)
        carry = carry + 0.01 * q


def test_derivatives_are_those_of_the_jax_run():
    v = jnp.array([1.0, 1.0])
    native, jax_ = (lambda k, b=b: final(v, k, b) for b in ("native", "jax"))
    wanted = jax.jacrev(native), jax.jacrev(jax_), jax.jacfwd(native), jax.jacfwd(jax_)
    slopes = jax.jit(lambda k: [slope(k) for slope in wanted])(1.3)
    for found, truth in (slopes[:2], slopes[2:]):
        np.testing.assert_allclose(found, truth, rtol=1e-12)


def test_the_program_holds_no_address():
    """XLA knows the run by a key made from its content: two traces give the same text, whose one long number is that key."""
    texts = [jax.jit(lambda v: final(v, 1.0)).lower(jnp.ones(2)).as_text() for _ in range(2)]
    assert "@dalembert_run(" in texts[0]
    assert texts[0] == texts[1]
    contents = [bytes.fromhex(handle.owners[0].key[:16]) for handle in _HANDLES.values()]
    whole = re.sub(r"0x[0-9A-Fa-f]+|\d+\.\d+([eE][+-]\d+)?", "", texts[0])
    long = [int(x) for x in re.findall(r"-?\d{12,}", whole)]
    assert len(long) == 1
    assert long[0] in [int.from_bytes(content, "little", signed=True) for content in contents]


def test_a_traced_value_in_a_closure_is_left_to_jax():
    def length(k):
        system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * k * q @ q)
        return da.simulate(system, jnp.ones(1), jnp.zeros(1), h=0.1, steps=10).q[-1, 0]

    TOLD.clear()
    with pytest.warns(UserWarning, match="closes over a value that is being traced; make it a parameter"):
        slope = jax.grad(length)(1.3)
    np.testing.assert_allclose(slope, (length(1.3 + 1e-5) - length(1.3 - 1e-5)) / 2e-5, rtol=1e-6)
