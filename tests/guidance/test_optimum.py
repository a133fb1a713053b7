"""Derivatives of solutions by JAX: closed forms, central differences of `solve`, both directions, jit and vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import PROBLEMS
from dalembert.outcome import Outcome

MOVE = PROBLEMS["double_integrator"].problem
CART = PROBLEMS["cart_pole"].problem


def moved(m, d):
    return da.optimum(MOVE.replace(m=m), initial=([0.0], [0.0]), final=({"q": d}, [0.0]), T=1.0, steps=20)


def test_the_double_integrator_has_the_derivatives_of_its_closed_form():
    """J = 12 m²d²/(1 + 2h²), u = 6md(1 - 2t)/(1 + 2h²)."""
    share = 1.0 / (1.0 + 2.0 / 400)
    by_m, by_d = jax.jit(jax.grad(lambda m, d: moved(m, d).cost, (0, 1)))(2.0, 3.0)
    assert float(by_m) == pytest.approx(24.0 * 2.0 * 9.0 * share, rel=1e-9)
    assert float(by_d) == pytest.approx(24.0 * 4.0 * 3.0 * share, rel=1e-9)
    slopes = jax.jacfwd(lambda d: moved(2.0, d).u[:, 0])(3.0)
    np.testing.assert_allclose(slopes, 12.0 * share * (1.0 - 2.0 * np.linspace(0.0, 1.0, 21)), rtol=0, atol=1e-9)
    several = jax.vmap(jax.grad(lambda m: moved(m, 1.0).cost))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(several, [24.0 * share, 48.0 * share], rtol=1e-9)


def test_a_bounded_swing_up_agrees_with_differences_of_solve(swing_up):
    """In both directions, by a mass and an angle at the end, with a force that is at its bounds for a while."""
    problem, plan, ends = swing_up
    ends = ends | {"bounds": {"u": (-12.0, 12.0)}}
    plan = da.solve(problem, **ends, guess=plan)
    assert np.any(plan.bounds["u"].active)
    at = np.array([0.3, np.pi])

    def asked(x):
        return ends | {"final": ({"x": 1.0, "theta": x[1]}, [0.0, 0.0]), "guess": plan}

    def found(x):
        best = da.optimum(problem.replace(m=x[0]), **asked(x))
        return jnp.concatenate([best.u[::8, 0], best.q[20], best.v[20], best.cost[None]])

    def solved(x):
        s = da.solve(problem.replace(m=x[0]), **asked(x), solver=da.Solver(tolerance=1e-11), certify=False)
        return np.concatenate([s.u[::8, 0], s.q[20], s.v[20], s.cost[None]])

    backward, forward = jax.jacrev(found)(jnp.asarray(at)), jax.jit(jax.jacfwd(found))(jnp.asarray(at))
    np.testing.assert_allclose(backward, forward, rtol=1e-12, atol=1e-12)
    differences = np.stack([(solved(at + d) - solved(at - d)) / 2e-4 for d in 1e-4 * np.eye(2)], axis=1)
    np.testing.assert_allclose(backward, differences, rtol=0, atol=1e-5 * np.abs(differences).max())


def test_what_is_not_solved_is_told_by_its_code():
    worst = da.optimum(CART, initial=([0.0, 0.0], [0.0, 0.0]), final=([1.0, np.pi], [0.0, 0.0]), T=2.0, steps=20,
                       bounds={"u": (-4.0, 4.0)}, solver=da.Solver(max_iterations=5))  # fmt: skip
    assert Outcome(int(worst.code)) is Outcome.NOT_CONVERGED
    assert np.isnan(worst.cost)
    assert np.isnan(worst.u).all()


def test_what_has_no_derivative_is_refused():
    ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}
    for final in (da.On(lambda q, v, p: q[0] - 1.0), da.Periodic()):  # both would be read as a free end
        with pytest.raises(TypeError, match=r"^final: found .*how a solution on a set changes is not known"):
            da.optimum(MOVE, T=1.0, steps=20, initial=ends["initial"], final=final)
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.hessian(lambda d: moved(1.0, d).cost)(1.0)


def test_a_coordinate_that_stays_at_zero_has_derivatives():
    """Threads of XLA take numbers below 2e-308 for 0: the unit of such a coordinate was 0, and everything NaN."""
    plane = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v, coordinates=("x", "y"), parameters={"m": 1.0})
    task = da.OptimalControl(plane, cost=lambda q, v, u, p: u @ u, actuated=(0, 1))
    ends = {"initial": ([0.0, 0.0], [0.0, 0.0]), "final": ([1.0, 0.0], [0.0, 0.0])}
    slope = jax.grad(lambda m: da.optimum(task.replace(m=m), **ends, T=1.0, steps=20).cost)(1.0)
    assert float(slope) == pytest.approx(24.0 / (1.0 + 2.0 / 400), rel=1e-9)
