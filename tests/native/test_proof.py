"""Affine is proven from the operations of the equations, and a small update is not a small residual where they may jump."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dalembert.algebra import Newton, agree, may_jump, newton
from dalembert.native import StepFunctions, choose_plan, split_unknowns, translate
from dalembert.outcome import Outcome

from .test_run import run, scalar_step

A = np.array([[2.0, 0.3, 0.0], [0.4, -1.1, 0.2], [0.1, 0.8, 1.7]])


def step_of(function, n: int = 3) -> StepFunctions:
    """The step F(z, q) = 0 without anything else."""
    return StepFunctions(
        n=n, k=n, shapes=(),
        residual=lambda z, q, s, t, h, held, p: function(z, q),
        guess=lambda q, s, t, h, p: s, scale=lambda z, q, s, h, p: 1.0 + jnp.abs(z),
        advance=lambda z, q, s, t, h, p: (h * z, z), outputs=lambda z, q, s, t, h, held, p: (z[:0], z),
        velocity=lambda s, p: s,
    )  # fmt: skip


@jax.custom_jvp
def declared(x):
    return 0.1 * x


declared.defjvp(lambda primals, tangents: (declared(primals[0]), 0.2 * tangents[0]))


@jax.custom_vjp
def declared_backwards(x):
    return 0.1 * x


declared_backwards.defvjp(lambda x: (0.1 * x, None), lambda _, ct: (0.2 * ct,))

# Each is affine in z, or has a derivative that does not depend on z; `proven` tells whether its operations prove the former.
PROVEN = {
    "sums and products": (lambda z, q: A @ z + q * z[::-1] - 2 * q, True),
    "a matrix of the state": (lambda z, q: jnp.linalg.solve(A + jnp.diag(q), z) - q, True),
    "a choice by the state": (lambda z, q: jnp.where(q > 0, z, 2 * z) - lax.cond(q[0] > 1, jnp.sin, jnp.abs, q), True),
    "sign": (lambda z, q: z + 0.1 * jnp.sign(z), False),
    "absolute value": (lambda z, q: z + 0.1 * jax.grad(lambda x: jnp.abs(x).sum())(z), False),
    "relu": (lambda z, q: z + 0.1 * jax.grad(lambda x: jax.nn.relu(x).sum())(z), False),
    "floor": (lambda z, q: z - jnp.floor(z), False),
    "ceil": (lambda z, q: z - jnp.ceil(z), False),
    "round": (lambda z, q: z - jnp.round(z), False),
    "remainder": (lambda z, q: z + jnp.fmod(z, 0.3), False),
    "a condition": (lambda z, q: z + jnp.where(z > q, 0.1, 0.2), False),
    "a branch": (lambda z, q: z + lax.cond(z[0] > 0, lambda: q, lambda: 2 * q), False),
    "an index": (lambda z, q: z + q[jnp.argmax(z)], False),
    "a whole number": (lambda z, q: z + 0.1 * z.astype(int), False),
    "the largest": (lambda z, q: z + jnp.max(q * z) * jnp.array([0.0, 0.0, 1.0]), False),
    "stop_gradient": (lambda z, q: z + lax.stop_gradient(0.1 * z), False),
    "a derivative by declaration": (lambda z, q: z + declared(z), False),
    "one for reverse mode": (lambda z, q: z + jax.jacrev(lambda x: declared_backwards(x).sum())(z), True),
    "a product": (lambda z, q: z + z * z[::-1], False),
}


@pytest.mark.parametrize("name", PROVEN)
def test_affine_is_proven_from_operations(name):
    function, proven = PROVEN[name]
    assert translate(step_of(function)).linear == proven


def test_unknowns_that_meet_a_jump_are_not_solved_once():
    """z₁ follows linearly from z₀, and z₂ from both, but for a jump in it: only z₁ can be left to the end."""
    smooth = lambda z: jnp.array([z[0] + 0.1 * z[0] ** 3 - 1, z[1] - z[0] ** 2, z[2] - z[0]])  # noqa: E731
    for last, tail in (
        (lambda z: z[1], (1, 2)),
        (lambda z: jnp.sign(z[2]), (1,)),
        (lambda z: lax.stop_gradient(z[2]), (1,)),
    ):
        made = translate(step_of(lambda z, q, last=last: smooth(z).at[2].add(0.1 * last(z))))
        assert split_unknowns(made.graph, made.equations)[1].columns == tail


def test_an_equation_that_reads_an_unknown_without_derivative_belongs_to_the_head():
    """F₀ holds z₁ in a sign: z₁ cannot be solved after z₀, though its column of the Jacobian is zero there."""
    made = translate(step_of(lambda z, q: jnp.array([z[0] ** 3 - 1 + 0.1 * jnp.sign(z[1]), z[1] - z[0]]), 2))
    assert split_unknowns(made.graph, made.equations)[1].columns == ()


def test_what_may_jump_is_judged_and_what_bends_is_not():
    for function, judged in (
        (lambda z, q: z + 0.1 * jnp.abs(z) * z - q, False),
        (lambda z, q: z + 0.1 * jnp.maximum(z, 0.0) ** 2 - q, False),
        (lambda z, q: z + 0.1 * jnp.sign(z) * z**2 - q, True),
        (lambda z, q: z**3 + z + lax.stop_gradient(z) - q, True),
        (lambda z, q: z**3 + jnp.where(agree(z > 0), z, z) - q, False),
        (lambda z, q: jnp.linalg.solve(jnp.diag(z**2) + A, z**3) - q, False),
    ):
        made = translate(step_of(function))
        plan = choose_plan(made, A[None] + 3 * np.eye(3))
        assert plan is not None
        assert (plan.once, plan.judged) == (False, judged)
        assert may_jump(lambda z, f=function: f(z, jnp.ones(3)), jnp.ones(3)) == judged


JUMPING = {
    "sign": jnp.sign, "floor": jnp.floor, "remainder": lambda z: z % 1.0, "arctan2": lambda z: jnp.arctan2(z, -1.0),
    "condition": lambda z: jnp.where(z > 0, 1.0, z), "branch": lambda z: lax.cond(z[0] > 0, lambda: z, lambda: 2 * z),
    "branch in a loop": lambda z: lax.fori_loop(0, 2, lambda i, x: x + jnp.sign(x), z),
    "turns": lambda z: lax.while_loop(lambda x: x[0] < 3, lambda x: 2 * x, z), "index": lambda z: z[jnp.argmax(z)],
    "whole": lambda z: z.astype(int) * 0.5, "scan": lambda z: lax.scan(lambda c, x: (jnp.floor(x), c), z[0], z)[1],
    "stop": lambda z: lax.stop_gradient(z), "declared": declared, "inside jit": jax.jit(lambda z: jnp.sign(z)),
    "derivative of abs": jax.grad(lambda z: jnp.abs(z).sum()), "unknown to JAX's own": jax.nn.softplus,
}  # fmt: skip
STEADY = {
    "smooth": lambda z: jnp.sin(z) * z @ z, "abs": jnp.abs, "clip": lambda z: jnp.clip(z, 0, 1), "max": jnp.max,
    "loop": lambda z: lax.fori_loop(0, 3, lambda i, x: x * i, z), "det": lambda z: jnp.linalg.det(jnp.outer(z, z) + A),
    "solve": jax.jacfwd(lambda z: jnp.linalg.solve(jnp.outer(z, z) + A, z)), "jit": jax.jit(lambda z: z**2),
    "branch by another": lambda z: lax.cond(jnp.ones(())[None][0] > 0, jnp.sin, jnp.cos, z), "constant": lambda z: A[0],
    "the same on both sides": lambda z: lax.cond(agree(z[0] > 0), jnp.sin, jnp.sin, z),
}  # fmt: skip
if hasattr(
    lax, "polynomial"
):  # newer versions of JAX find a determinant of three rows by elimination, which compares pivots
    JUMPING["det"] = STEADY.pop("det")


@pytest.mark.parametrize("functions", [JUMPING, STEADY], ids=["jumping", "steady"])
def test_jumps_are_found_in_the_operations(functions):
    found = {name: may_jump(function, jnp.ones(3)) for name, function in functions.items()}
    assert found == dict.fromkeys(functions, functions is JUMPING)


def crossing(z):
    """z - 1 with a jump of 0.05 half a tolerance below a point that is a root up to 10⁻¹⁰; z = 0.95 is one."""
    return z - 1.0 + jnp.where(z < 1.0 + 5e-11, 0.05, 0.0)


def test_the_last_update_may_not_cross_a_jump_in_machine_code():
    step = scalar_step(lambda z, q, t, h, p: crossing(z), guess=lambda q, s, t, h, p: 1.0 + 1e-10 + 0.0 * s)
    code, found = run(step, steps=1, tolerance=1e-9)
    assert not code.linear
    assert found.outcome == Outcome.SUCCESS
    np.testing.assert_allclose(found.rows["v"][0], 0.95, rtol=0, atol=1e-12)


def test_the_last_update_may_not_cross_a_jump_in_jax():
    z, info = newton(crossing, jnp.array([1.0 + 1e-10]), lambda x: 1.0 + jnp.abs(x), Newton(1e-9, 25))
    assert not (info.not_converged | info.singular | info.not_finite)
    np.testing.assert_allclose(z, 0.95, rtol=0, atol=1e-12)


def test_equations_without_a_root_are_not_solved_in_either():
    """z + sign(z - ½) = ½ has none: values 1/2 below and above."""
    gap = lambda z: z - 0.5 + jnp.sign(z - 0.5 + 1e-3)  # noqa: E731
    _, found = run(scalar_step(lambda z, q, t, h, p: gap(z)), steps=1)
    assert found.outcome == Outcome.NOT_CONVERGED
    _, info = newton(gap, jnp.zeros(1), lambda x: 1.0 + jnp.abs(x), Newton())
    assert bool(info.not_converged)
