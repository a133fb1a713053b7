"""The flow of variational problems of order k against closed forms, continuous flows and its own other back-end."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.discretize import windows
from dalembert.discretize.higher import forward_differences, shifted_back, shifted_forth, starting_windows
from dalembert.gallery import heisenberg
from dalembert.systems import lift

CIRCLE = {"q0": (0.3, -0.2, 0.1), "v0": (1.0, 0.5, -0.2 * 1.0 - 0.3 * 0.5)}


def clamp(q, v, a):
    return 0.5 * a @ a


def curved(q, v, a, t, p):
    kinetic = 0.5 * (1 + 0.3 * jnp.sin(q[0]) ** 2) * a[0] ** 2 + 0.5 * a[1] ** 2 * (1 + 0.2 * v[0] ** 2)
    return kinetic - 0.5 * p["c"] * v @ v * (1 + 0.1 * jnp.cos(t)) + jnp.cos(q[0]) * q[1] + 0.2 * a[0] * a[1] * q[1]


JETS = np.array([[0.3, 0.2], [0.4, -0.3], [0.2, 0.3], [-0.3, 0.2]])


@pytest.fixture(scope="module")
def problem():
    return da.VariationalProblem(curved, derivatives=2, parameters={"c": 1.3}, time_dependent=True)


@pytest.fixture(scope="module")
def reference(problem):
    return da.systems.ostrogradsky(problem, JETS, jnp.linspace(0.5, 1.5, 3))


@pytest.mark.parametrize("scheme", [da.Interpolated(), da.Averaged()], ids=lambda s: s.name)
def test_second_order_from_derivatives(problem, reference, scheme):
    """L(q, v, a, t), nonlinear, against the continuous flow in Ostrogradsky's momenta."""
    errors = []
    for N in (80, 160, 320):
        path = da.simulate(problem, start=da.Start(jets=JETS), h=1 / N, steps=N, t0=0.5, scheme=scheme)
        errors.append(float(jnp.abs(path.q[:: N // 2] - reference.q).max()))
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([2.0, 2.0], abs=0.1)


def test_both_back_ends_agree(problem):
    runs = [
        da.simulate(problem, start=da.Start(jets=JETS), h=0.05, steps=40, solver=da.Solver(backend=b))
        for b in ("native", "jax")
    ]
    np.testing.assert_allclose(runs[0].q, runs[1].q, rtol=0, atol=1e-14)
    np.testing.assert_allclose(runs[0].v, runs[1].v, rtol=0, atol=1e-13)


def test_a_run_goes_on_from_its_own_nodes(problem):
    """Two ways to the same momenta: through windows on coinciding knots and from four nodes."""
    path = da.simulate(problem, start=da.Start(jets=JETS), h=0.1, steps=10)
    again = da.simulate(problem, start=da.Start(nodes=path.q[2:6]), h=0.1, t0=0.2, steps=8)
    np.testing.assert_allclose(again.q, path.q[2:], rtol=0, atol=1e-12)
    np.testing.assert_allclose(again.t, path.t[2:])


def test_nodes_of_a_cubic_are_met_exactly():
    t = 0.1 * np.arange(51)[:, None]
    cubic = np.array([0.1, -3.0]) + t * (np.array([1.0, 2.0]) + t * (np.array([0.5, 0.3]) + t * np.array([-0.7, 0.2])))
    path = da.simulate(da.VariationalProblem(clamp, derivatives=2), start=da.Start(nodes=cubic[:4]), h=0.1, steps=50)
    np.testing.assert_allclose(path.q, cubic, rtol=0, atol=1e-8)  # ε|q|/h³ of the given nodes, times (5)³/6


def test_rounding_does_not_grow_with_the_step_number():
    """A cubic from exact data, over 10⁴ steps far from the origin: differences of large positions are never formed."""
    problem = da.VariationalProblem(clamp, derivatives=2)
    path = da.simulate(problem, start=da.Start(jets=[[1e4], [1.0], [0.0], [0.0]]), h=1e-3, steps=10_000)
    np.testing.assert_allclose(path.q[:, 0] - 1e4, path.t, rtol=0, atol=1e-11)
    np.testing.assert_allclose(path.v[2:], 1.0, rtol=1e-13)  # the first two are differences of the nodes at the start


@pytest.mark.parametrize("k", [1, 3])
def test_other_orders(k):
    def lagrangian(*x):
        q, top = x[0], x[-1]
        kinetic = 0.5 * (1 + 0.3 * jnp.sin(q[0]) ** 2) * top @ top
        return kinetic - sum((-1) ** (k - j) * 0.5 * x[j] @ x[j] for j in range(1, k)) + jnp.cos(q[0])

    problem = da.VariationalProblem(lagrangian, derivatives=k)
    jets = 0.3 * np.random.default_rng(1).standard_normal((2 * k, 1))
    end = da.systems.ostrogradsky(problem, jets, jnp.array([0.0, 1.0])).q[-1]
    errors = [
        float(jnp.abs(da.simulate(problem, start=da.Start(jets=jets), h=1 / N, steps=N).q[-1] - end).max()) for N in (32, 64)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("scheme", [da.Interpolated(), da.Averaged()], ids=lambda s: s.name)
def test_newton_s_form_of_a_window_is_that_of_the_boundary_problem(scheme, k):
    """The starting windows, on coinciding knots, give the jets of `windows`, point by point."""
    h, random = 0.3, np.random.default_rng(k)
    other = windows(scheme, k, h * np.arange(2 * k + 3.0), jets=(True, False))
    found = jax.tree.map(np.asarray, starting_windows(scheme, k, h, 0.0))
    x = random.standard_normal((other.orders.size, 1))
    u = x[:k][::-1]
    for s in range(k):
        last = (x[other.nodes[s + 1]] - found.newest[s, :-1] @ u) / found.newest[s, -1]
        u = np.concatenate([u, last[None]])
        before = np.concatenate([np.zeros((1, 1)), x[s : s + k]])
        jet = np.einsum("jw,wi->ji", other.rows[s, 0], x[s : s + k + 1] - other.chained[s][:, None] * before)
        np.testing.assert_allclose(found.jet[s] @ u, jet, rtol=1e-11, atol=1e-9)
        assert (found.middle[s], found.spans[s, -1]) == pytest.approx((other.times[s, 0], other.weights[s, 0]))
        u = u[:-1] + found.spans[s][:, None] * u[1:]


@pytest.fixture(scope="module")
def vakonomic():
    return [
        da.simulate(heisenberg.heisenberg("vakonomic"), **CIRCLE, start=da.Start(multipliers=[[0.7]]), h=2 / N, steps=N)
        for N in (40, 80)
    ]


def test_vakonomic_motion_is_a_circle(vakonomic):
    """λ is constant, (x, y) on a circle: the closed form, second order."""
    errors = [float(np.abs(p.q - heisenberg.exact(p.t, **CIRCLE, multiplier=0.7)[0]).max()) for p in vakonomic]
    assert errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.1)
    np.testing.assert_allclose(vakonomic[0].multipliers, 0.7, rtol=0, atol=1e-13)
    np.testing.assert_allclose(vakonomic[0].t_multipliers[0], 0.075)  # the middle of the first window that is stepped


def test_one_word_changes_the_principle(vakonomic):
    other = da.simulate(heisenberg.heisenberg("dalembert"), **CIRCLE, h=0.05, steps=40)
    np.testing.assert_allclose(other.q, heisenberg.exact(other.t, **CIRCLE)[0], rtol=0, atol=1e-13)
    assert np.abs(other.q - vakonomic[0].q).max() > 0.1


def test_four_derivatives():
    """k = 4: q⁽⁸⁾ = |q|² q, which the unit circle solves; second order, and symplectic."""
    problem = da.VariationalProblem(lambda q, v, a, j, s: 0.5 * s @ s - 0.25 * (q @ q) ** 2, derivatives=4)
    circle = lambda t: np.stack([np.cos(t), np.sin(t)], axis=-1)  # noqa: E731
    jets = circle(0.5 * np.pi * np.arange(8))
    runs = [da.simulate(problem, start=da.Start(jets=jets), h=1 / N, steps=N) for N in (20, 40, 80)]
    errors = np.array([np.abs(p.q - circle(np.asarray(p.t))).max() for p in runs])
    assert np.log2(errors[:-1] / errors[1:]) == pytest.approx([2.0, 2.0], abs=0.1)
    wide = da.measure.symplectic_defect(problem, nodes=circle(0.5 * np.arange(8)), h=0.5)  # momenta of nodes are ~ h⁻⁷
    assert float(wide.size) < 1e-12 * float(jnp.abs(wide.omega).max())


def test_lifts_of_a_function():
    """T⁽³⁾f against the derivatives of f along a curve with these derivatives."""
    f = lambda q: jnp.array([jnp.exp(q[0]) * q[1], q @ q])  # noqa: E731
    along = lambda t: f(jnp.array([jnp.sin(t), 1 + t**3]))  # noqa: E731
    t = 0.7
    jet = np.array([[np.sin(t), 1 + t**3], [np.cos(t), 3 * t**2], [-np.sin(t), 6 * t], [-np.cos(t), 6.0]])
    first, second = jax.jacfwd(along), jax.jacfwd(jax.jacfwd(along))
    wanted = jax.jit(lambda t: jnp.stack([along(t), first(t), second(t), jax.jacfwd(second)(t)]))(t)
    np.testing.assert_allclose(np.stack(jax.jit(lift(f, 3))(jnp.asarray(jet))), wanted, rtol=1e-13)


def test_many_flows_at_once(problem):
    """The lanes of an ensemble, over jets and over parameters, are the single runs."""
    many = da.ensemble(
        problem, start=da.Start(jets=np.stack([JETS, 1.1 * JETS])), h=0.05, steps=10, t0=0.5, parameters={"c": [1.3, 0.9]}
    )
    for i, (scale, c) in enumerate([(1.0, 1.3), (1.1, 0.9)]):
        one = da.simulate(problem.replace(c=c), start=da.Start(jets=scale * JETS), h=0.05, steps=10, t0=0.5)
        np.testing.assert_allclose(many.q[i], one.q, rtol=0, atol=1e-14)


def test_alternating_nodes_beyond_the_smallest_scale():
    """L = ½εq̈² + ½q̇²: a layer at the end decays by (2√ε - h)/(2√ε + h) in each node, which alternates for h > 2√ε."""
    for epsilon in (1e-4, 4e-2):
        layer = da.VariationalProblem(
            lambda q, v, a, p: 0.5 * p["e"] * a @ a + 0.5 * v @ v, derivatives=2, parameters={"e": epsilon}
        )
        path = da.solve(layer, initial=([0.0], [1.0]), final=([0.0], [0.0]), T=3.0, steps=30)
        bends = np.diff(np.asarray(path.q[:, 0]), n=2)[1:6]
        wanted = (2 * np.sqrt(epsilon) - 0.1) / (2 * np.sqrt(epsilon) + 0.1)
        np.testing.assert_allclose(bends[1:] / bends[:-1], wanted, rtol=1e-4)


def sphere(q):
    return q @ q - 1.0


def start_on_sphere():
    """q, v, a, j with q·q = 1 and its first three derivatives zero."""
    q, v, tangent, jerk = np.array([[1.0, 0, 0], [0, 0.8, 0.1], [0, 0.2, 0.5], [0, -0.3, 0.4]])
    a = tangent - (v @ v) * q
    return np.stack([q, v, a, jerk - 3 * (v @ a) * q])


@pytest.fixture(scope="module")
def ambient():
    return da.VariationalProblem(clamp, da.Holonomic(sphere), derivatives=2)


def test_the_sphere_is_not_left_and_runs_away(ambient):
    """Ambient acceleration: the constraint to round-off at every node, the paper's force, an outcome at the blow-up."""
    path = da.simulate(ambient, start=da.Start(jets=start_on_sphere()), h=0.01, steps=1000, throw=False)
    assert path.outcome.failed
    assert 1.4 < float(path.statistics.failed_time) < 1.6
    assert np.abs(np.sum(np.asarray(path.q) ** 2, axis=1) - 1).max() < 1e-15
    q, i = np.asarray(path.q), 40
    fourth = (q[i + 2] - 4 * q[i + 1] + 6 * q[i] - 4 * q[i - 1] + q[i - 2]) / 0.01**4
    at = int(np.argmin(np.abs(path.t_multipliers - 0.01 * i)))
    # the printed equation with hλ for the printed λ; rounding of the nodes is ε/h⁴
    np.testing.assert_allclose(fourth + 2 * path.multipliers[at] * q[i], 0, atol=1e-6)
    np.testing.assert_allclose(path.constraint_forces[at], 2 * path.multipliers[at] * q[i])


def test_a_constraint_of_order_two():
    """Multipliers and positions against the continuous flow, from consistent (q, v, a, j), λ and λ̇."""
    problem = da.VariationalProblem(
        lambda q, v, a: 0.5 * a @ a + jnp.cos(q[0]), lambda q, v, a: a[0] - jnp.sin(q[1]) * v[1], derivatives=2
    )
    q, v, a1, j1 = np.array([0.2, 0.5]), np.array([0.3, 0.6]), -0.2, 0.4
    a0, j0 = np.sin(q[1]) * v[1], np.cos(q[1]) * v[1] ** 2 + np.sin(q[1]) * a1
    jets, free = np.stack([q, v, [a0, a1], [j0, j1]]), [[0.3], [-0.2]]
    end = da.systems.ostrogradsky(problem, jets, jnp.array([0.0, 0.5]), multipliers=free)
    runs = [da.simulate(problem, start=da.Start(jets=jets, multipliers=free), h=0.5 / N, steps=N) for N in (20, 40)]
    errors = [float(np.abs(p.q[-1] - end.q[-1]).max()) for p in runs]
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.3)
    late = runs[1].multipliers[-1] + 0.5 * (runs[1].multipliers[-1] - runs[1].multipliers[-3])  # one step on, to t = 0.5
    np.testing.assert_allclose(late, end.multipliers[-1], rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"start": da.Start(jets=JETS[:3])}, ValueError, "jets: found shape"),
        ({"start": da.Start(nodes=JETS[:3])}, ValueError, "nodes: found shape"),
        ({}, ValueError, "give one of them"),
        ({"start": da.Start(jets=JETS, nodes=JETS)}, ValueError, "give one of them"),
        ({"start": da.Start(jets=JETS * np.nan)}, ValueError, "finite"),
        ({"start": da.Start(jets=JETS), "scheme": da.Hermite()}, ValueError, "scheme: found Hermite"),
        ({"start": da.Start(jets=JETS), "scheme": da.Scheme()}, TypeError, "scheme: found Scheme"),
        ({"start": da.Start(jets=JETS, multipliers=[[1.0]])}, ValueError, "multipliers: found shape"),
        ({"start": da.Start(jets=JETS), "steps": 1}, ValueError, "steps: found 1"),
        ({"start": da.Start(jets=JETS), "feedback": da.SampledFeedback(lambda q, v: q)}, ValueError, "feedback"),
    ],
)
def test_bad_input(options, error, words):
    problem = da.VariationalProblem(clamp, derivatives=2)
    with pytest.raises(error, match=words):
        da.simulate(problem, **{"h": 0.1, "steps": 10, **options})


def test_what_has_no_flow_is_named(ambient):
    with pytest.raises(da.RankDeficientError, match=r"singular Lagrangian.*derivatives=2"):
        da.simulate(
            da.VariationalProblem(lambda q, v, a: 0.5 * v @ v, derivatives=2), start=da.Start(jets=JETS), h=0.1, steps=5
        )
    with pytest.raises(ValueError, match="multipliers: are missing"):
        da.simulate(heisenberg.heisenberg("vakonomic"), **CIRCLE, h=0.1, steps=5)
    with pytest.raises(da.InconsistentDataError, match="jets: φ"):
        da.simulate(ambient, start=da.Start(jets=2 * start_on_sphere()), h=0.1, steps=5)
    with pytest.raises(da.InconsistentDataError, match="nodes: φ"):
        da.simulate(ambient, start=da.Start(nodes=2 * start_on_sphere()), h=0.1, steps=5)
    with pytest.raises(ValueError, match="jets: belong to a VariationalProblem"):
        da.simulate(heisenberg.heisenberg(), **CIRCLE, start=da.Start(jets=JETS), h=0.1, steps=5)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_start_from_derivatives_is_part_of_the_flow(k):
    """The node equations hold at every node, the first ones too, and the nodes follow the curve: they once jumped by h²q̈."""
    problem = da.VariationalProblem(lambda *x: 0.5 * x[-1] @ x[-1] - 0.3 * jnp.cos(x[0][0]), derivatives=k)
    h, taylor = 0.1, 0.5 ** np.arange(2 * k)[:, None]
    path = da.simulate(problem, start=da.Start(jets=taylor), h=h, steps=3 * k)
    q = np.asarray(path.q)
    for i in range(len(q) - 2 * k):
        left = da.measure.euler_lagrange_operator(problem, q[i : i + 2 * k + 1], np.zeros((k + 1, 0)), h=h)
        assert np.abs(left).max() < 1e-15 * 4**k / h ** (2 * k - 1)
    curve = sum(x * np.asarray(path.t)[:, None] ** j / math.factorial(j) for j, x in enumerate(taylor))
    np.testing.assert_allclose(q[: 2 * k], curve[: 2 * k], rtol=0, atol=2 * h**4)


def test_differences_of_points_forth_and_back():
    points = np.random.default_rng(0).normal(size=(4, 2))
    ahead = np.asarray(forward_differences(jnp.asarray(points), 0.1))
    behind = np.asarray(forward_differences(jnp.asarray(points[::-1].copy()), -0.1))
    np.testing.assert_allclose(shifted_forth(jnp.asarray(ahead), 0.1), behind, rtol=0, atol=1e-10)
    np.testing.assert_allclose(shifted_back(jnp.asarray(behind), 0.1), ahead, rtol=0, atol=1e-10)
