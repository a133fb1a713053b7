"""Constraints of lower order than L, positions and multipliers: Pontryagin's equations of a car, elastica, closed forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.boundary.data.redundant import find_integrals


def knife(q, v):
    return v[0] * jnp.sin(q[2]) - v[1] * jnp.cos(q[2])


def steered(k, s, w):
    """d/dt (x, y, θ, u, ω, u̇, ω̇) of a car, ẋ = u (cos θ, sin θ), k-1 derivatives of the speeds u and ω, w the last ones."""
    heading = jnp.stack([s[3] * jnp.cos(s[2]), s[3] * jnp.sin(s[2]), s[4]])
    return jnp.concatenate([heading, s[5:], w])


def top(k, s, w):
    """(ẍ, ÿ), k = 2, or the third derivatives, k = 3: in the frame of the car, turned by θ."""
    along, across = (w[0], s[3] * s[4]) if k == 2 else (w[0] - s[3] * s[4] ** 2, 2 * s[5] * s[4] + s[3] * s[6])
    c, d = jnp.cos(s[2]), jnp.sin(s[2])
    return jnp.stack([c * along - d * across, d * along + c * across])


class Car:
    """min ½∫|q⁽ᵏ⁾|², q = (x, y, θ), no motion across the wheels, by Pontryagin's principle without a multiplier; and λ(t).

    Any costate at t = 0 gives an extremal, whose ends are then given. λ solves (-d/dt)ᵏ⁻¹ q⁽ᵏ⁾ + λ ∂φ/∂v = -p for x and
    y: what is left along the heading has to vanish.
    """

    def __init__(self, k, state, costate):
        self.k, self.size = k, len(state)
        rate, start = jax.jit(self.rate), np.concatenate([state, costate])
        given = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13, "dense_output": True}
        found = solve_ivp(lambda t, z: np.asarray(rate(z)), (0.0, 1.0), start, **given)
        self.at = lambda t: found.sol(np.asarray(t)).T
        self.derivatives = jax.jit(lambda z: [self.along(lambda y: y[:3], i)(z) for i in range(k)])

    def control(self, z):
        """What maximizes H = p·ṡ - ½|q⁽ᵏ⁾|²."""
        w = z[self.size + 2 * self.k - 1 :]
        return w if self.k == 2 else w + jnp.stack([z[3] * z[4] ** 2, 0.0])

    def rate(self, z):
        def hamiltonian(s, p):
            w = self.control(z)
            last = jnp.concatenate([top(self.k, s, w), w[1:]])
            return p @ steered(self.k, s, w) - 0.5 * last @ last

        by_state, by_costate = jax.grad(hamiltonian, (0, 1))(z[: self.size], z[self.size :])
        return jnp.concatenate([by_costate, -by_state])

    def along(self, function, times: int):
        """The time derivative of a function of z, so many times."""
        for _ in range(times):
            function = lambda z, f=function: jax.jvp(f, (z,), (self.rate(z),))[1]  # noqa: E731
        return function

    def jet(self, t):
        """q, q̇, …, q⁽ᵏ⁻¹⁾ at one time."""
        return self.derivatives(self.at(t))

    def multiplier(self, t):
        """(λ, what is left along the heading), at times (T,)."""

        def one(z):
            force = self.along(lambda y: top(self.k, y, self.control(y)), self.k - 1)(z)
            x, y = z[self.size : self.size + 2] + (-1.0) ** self.k * force
            return jnp.stack([x * jnp.sin(z[2]) - y * jnp.cos(z[2]), x * jnp.cos(z[2]) + y * jnp.sin(z[2])])

        return np.asarray(jax.jit(jax.vmap(one))(self.at(t))).T


CARS = {
    2: Car(2, [0.0, 0.0, 0.0, 1.0, 0.3], [4.0, -3.0, 2.0, 1.0, 2.0]),
    3: Car(3, [0.0, 0.0, 0.0, 1.0, 0.3, 0.2, -0.1], [40.0, -30.0, 20.0, 10.0, 15.0, 2.0, 3.0]),
}


TENSION, TURN = np.array([1.0, 0.5]), 1.5
ELASTICA = da.VariationalProblem(
    lambda q, v, a: 0.5 * a @ a, da.Nonholonomic(lambda q, v: 0.5 * (v @ v - 1.0)), derivatives=2
)


class Rod:
    """Elastica of unit speed: (x, y, θ, θ̇) with θ̈ = -p·n, n = (-sin θ, cos θ); λ = p·(cos θ, sin θ) - θ̇²."""

    def __init__(self, end):
        def rate(_, z):
            c, s = np.cos(z[2]), np.sin(z[2])
            return np.array([c, s, z[3], TENSION @ [s, -c]])

        found = solve_ivp(rate, (0.0, end), [0.0, 0.0, 0.0, TURN], "DOP853", rtol=1e-12, atol=1e-13, dense_output=True)
        self.at = lambda t: found.sol(np.asarray(t))

    def jet(self, t):
        x, y, angle, _ = self.at(t)
        return [x, y], [np.cos(angle), np.sin(angle)]

    def multiplier(self, t):
        _, _, angle, turn = self.at(t)
        return TENSION @ np.array([np.cos(angle), np.sin(angle)]) - turn**2


@pytest.mark.parametrize(("k", "scheme", "steps", "order"), [
    (2, da.Interpolated(), (21, 42), 2), (2, da.Hermite(), (9, 18), 4),
    (3, da.Interpolated(), (21, 42), 2), (3, da.Hermite(), (7, 14), 6),
], ids=str)  # fmt: skip
def test_a_planar_car_of_least_acceleration_and_of_least_jerk(k, scheme, steps, order):
    """λ to second order with every scheme; before, it grew like 1/h (k = 2) and 1/h² (k = 3)."""
    car = CARS[k]
    problem = da.VariationalProblem(lambda *x: 0.5 * x[k] @ x[k], da.Nonholonomic(knife), derivatives=k)
    errors = []
    for n in steps:
        s = da.solve(problem, initial=car.jet(0.0), final=car.jet(1.0), T=1.0, steps=n, scheme=scheme)
        true, rest = car.multiplier(s.t_multipliers)
        assert np.abs(rest).max() < 1e-8 * np.abs(true).max()
        assert (s.kind, float(s.statistics.alternation)) == ("minimum", 0.0)
        errors.append(
            (np.abs(s.q - car.at(s.t)[:, :3]).max(), np.abs(s.multipliers[:, 0] - true).max() / np.abs(true).max())
        )
    assert np.log2(errors[0][0] / errors[1][0]) == pytest.approx(order, abs=0.25)
    assert np.log2(errors[0][1] / errors[1][1]) > 1.75
    assert errors[1][1] < 0.04


@pytest.mark.parametrize(("scheme", "steps", "order"), [(da.Averaged(), (25, 50), 2), (da.Hermite(), (9, 18), 4)], ids=str)
def test_a_clamped_rod_of_unit_speed(scheme, steps, order):
    rod, errors = Rod(1.0), []
    for n in steps:
        guess = rod.at(np.linspace(0.0, 1.0, n + 1))[:2].T
        s = da.solve(ELASTICA, initial=rod.jet(0.0), final=rod.jet(1.0), T=1.0, steps=n, scheme=scheme, guess=guess)
        off = s.multipliers[:, 0] - rod.multiplier(s.t_multipliers)
        errors.append((np.abs(s.q - guess).max(), np.abs(off).max()))
    assert np.log2(errors[0][0] / errors[1][0]) == pytest.approx(order, abs=0.2)
    assert np.log2(errors[0][1] / errors[1][1]) == pytest.approx(2.0, abs=0.35)
    assert errors[1][1] < 0.05


LEVER = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Nonholonomic(lambda q, v: v[0] - 2 * v[1]), derivatives=2)
FIRST = ([0.0, 0.0], [1.0, 0.5])


@pytest.mark.parametrize(("scheme", "steps"), [(da.Interpolated(), 150), (da.Hermite(), 7)], ids=str)
def test_what_both_ends_give_may_follow_from_a_constraint(scheme, steps):
    """q₀ - 2q₁ is given twice, and λ up to a constant: q₀ = 2q₁ is a cubic. From 150 blocks on it raised an error."""
    s = da.solve(LEVER, initial=FIRST, final=([1.0, 0.5], [2.0, 1.0]), T=1.0, steps=steps, scheme=scheme, throw=False)
    assert s.kind == "minimum"
    cubic = s.t - s.t**2 + s.t**3
    assert np.abs(s.q - np.stack([cubic, 0.5 * cubic], axis=1)).max() < (1e-14 if steps == 7 else 1e-5)
    assert np.ptp(s.multipliers) < 1e-7
    assert np.abs(s.multipliers).max() < 10.0
    with pytest.raises(da.InconsistentDataError, match="a constraint fixes a function of what both ends give"):
        da.solve(LEVER, initial=FIRST, final=([1.0, 0.6], [2.0, 1.0]), T=1.0, steps=steps, scheme=scheme)
    with pytest.raises(da.InconsistentDataError, match="final: constraint 0 is"):
        da.solve(LEVER, initial=FIRST, final=([1.0, 0.5], [2.0, 1.1]), T=1.0, steps=steps, scheme=scheme)


def test_multipliers_that_alternate_are_no_solution():
    """A constraint on velocities on the paper's three nodes, by functions of nodes: λ of even and odd windows are apart."""
    n, rod = 20, Rod(1.0)
    h = 1.0 / n
    nodes = rod.at(np.linspace(0.0, 1.0, n + 1))[:2].T
    three = da.VariationalProblem(
        lambda x, y, z: 0.5 * jnp.sum((z - 2 * y + x) ** 2) / h**3,
        lambda x, y, z: 0.5 * h * (jnp.sum(((z - x) / (2 * h)) ** 2) - 1.0), derivatives=2,
    )  # fmt: skip
    given = {
        "initial": da.Nodes(nodes[:2]),
        "final": da.Nodes(nodes[-2:]),
        "T": 1.0,
        "steps": n,
        "guess": nodes,
        "scheme": da.Points(),
    }
    s = da.solve(three, **given, throw=False)
    assert s.outcome is da.Outcome.ALTERNATING
    assert s.kind == "multipliers not resolved"
    assert float(s.statistics.alternation) > 0.5
    assert np.diff(np.sign(np.diff(s.multipliers[:, 0]))).all()
    with pytest.raises(da.SolveError, match="alternate from node to node"):
        da.solve(three, **given)


def test_the_order_of_a_constraint_is_what_it_depends_on():
    """One that is given q̈ and ignores it has the order 1, whatever the function is called."""
    car, least = CARS[2], lambda q, v, a: 0.5 * a @ a
    plain, named = lambda q, v, a: knife(q, v) + 0.0 * a[0], da.Nonholonomic(knife)
    found = [
        da.solve(da.VariationalProblem(least, c, derivatives=2), initial=car.jet(0.0), final=car.jet(1.0), T=1.0, steps=11)
        for c in (plain, named)
    ]  # fmt: skip
    np.testing.assert_allclose(found[0].q, found[1].q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[0].multipliers, found[1].multipliers, rtol=0, atol=1e-7)
    place = da.VariationalProblem(least, lambda q, v, a: q[0] - q[1] ** 2, derivatives=2)
    with pytest.raises(ValueError, match="depends on no derivative; give it as Holonomic"):
        da.solve(place, initial=FIRST, T=1.0, steps=11)


def rolling(jet, t):
    """A place on a circle and the way that it has rolled."""
    (_, x, y), (w, u, v) = jet
    return jnp.array([0.5 * (x**2 + y**2 - 1.0), x * v - y * u - w])


def contact(jet, t):
    return jnp.array([jet[1, 1] - jet[0, 2] * jet[1, 0]])


def completed(jet, t):
    """φ₁ + φ₂ is d/dt (v₃ - q₀q₂ + q₁) - sin t; neither is a derivative by itself."""
    return jnp.append(contact(jet, t), jet[2, 3] - jet[0, 0] * jet[1, 2] - jnp.sin(t))


@pytest.mark.parametrize(("order", "constraints", "end", "count"), [
    (1, contact, [1.2, 0.9, 0.1], 0), (2, completed, [1.2, 0.9, 0.1, 0.4], 1), (1, rolling, [0.8, 0.7, 0.7], 1),
])  # fmt: skip
def test_constraints_together_may_fix_a_function_of_the_ends(order, constraints, end, count):
    """Of different orders, or with holonomic ones: such ends were a success with λ wrong by 1/h³."""

    both = jax.jit(jax.vmap(lambda jet, t: (constraints(jet, t), jax.jacfwd(constraints)(jet, t))))

    def linearised(jets, times):
        values, slopes = both(jets, times)
        return np.asarray(values), np.asarray(slopes)

    path = np.linspace(0.0, 1.0, 11)[:, None] * np.array(end)
    found = find_integrals(np.linspace(0.0, 2.0, 11), path, order, linearised)
    assert (0 if found is None else found.multipliers.shape[1]) == count
    if constraints is completed:
        np.testing.assert_allclose(found.multipliers[:, 0, 0], found.multipliers[:, 0, 1], rtol=1e-6)
        assert np.ptp(found.multipliers) < 1e-6
    if constraints is rolling:  # with θ̇ = xẏ - yẋ: μ = -2θ̇λ, λ constant
        (_, x, y), (_, u, v) = np.moveaxis(found.curve.jets, 0, 2)
        np.testing.assert_allclose(
            found.multipliers[:, 0, 0], -2 * (x * v - y * u) * found.multipliers[:, 0, 1], rtol=0, atol=1e-5
        )
