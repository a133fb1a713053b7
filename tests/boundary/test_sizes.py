"""Units, origins and the size of the Lagrangian are no part of a problem: the solution is the same in all of them."""

from importlib import import_module

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.native import Unsupported

# Lengths in units of 1/u with the origin o, and a Lagrangian that is c times as large. Where u = c = 1 and o = 0 are the
# natural numbers, the extents are 1 or nearly so.
NATURAL = {"u": 1.0, "o": 0.0, "c": 1.0}
UNITS = [
    {"u": 1e-9}, {"u": 1e9}, {"u": 1e-9, "c": 1e12}, {"c": 1e-12}, {"u": 1e6, "c": 1e-12},
    {"o": 1e6}, {"o": -1e6, "c": 1e12}, {"u": 1e-9, "o": -1e-3},
]  # fmt: skip


def natural(q, v, p):
    return (q - p["o"]) / p["u"], v / p["u"]


def pendulum(q, v, p):
    x, w = natural(q, v, p)
    return p["c"] * (0.5 * w @ w + jnp.cos(x[0]))


def beam(q, v, a, p):
    x, b = natural(q, a, p)
    return p["c"] * (b @ b + 48 * x[0] + jnp.sin(x[0]))


def curve(q, v, a, p):
    x, w = natural(q, v, p)
    b = a / p["u"]
    bend = 0.5 * (1 + 0.3 * jnp.sin(x[0])) * b[0] ** 2 + 0.5 * b[1] ** 2 + 0.1 * x[0] ** 2 * b[1]
    return p["c"] * (bend + w[0] * w[1] * x[1] + jnp.cos(x[0]))


def law(q, v, a, p):
    x, w = natural(q, v, p)
    return a[1] / p["u"] - jnp.sin(x[0]) - 0.5 * w[0]


def bending(q, v, a, p):
    return 0.5 * p["c"] * a @ a / p["u"] ** 2


def sphere(q, p):
    return (q - p["o"]) @ (q - p["o"]) - p["u"] ** 2


E = np.eye(3)
PROBLEMS = {  # problem, positions and derivatives at the ends, everything else
    "pendulum": (
        da.VariationalProblem(pendulum, parameters=NATURAL), ([[0.0]], [[1.0]]), {"T": 1.0, "steps": 100},
    ),
    "beam, nothing given but zeros": (
        da.VariationalProblem(beam, derivatives=2, parameters=NATURAL), ([[0.0], [0.0]], [[0.0], [0.0]]),
        {"T": 1.0, "steps": 40},
    ),
    "curve with a constraint": (
        da.VariationalProblem(curve, law, derivatives=2, parameters=NATURAL), ([[0.0, 0.1], [0.3, 0.0]], [[0.5, 0.0]]),
        {"T": 1.0, "steps": 40},
    ),
    "sphere, in one loop of machine code": (
        da.VariationalProblem(bending, da.Holonomic(sphere), derivatives=2, parameters=NATURAL),
        ([E[0], 0.5 * E[1] + E[2]], [E[1], -E[0] + 0.3 * E[2]]), {"T": 1.0, "steps": 200},
    ),
}  # fmt: skip


def in_units(name, u=1.0, o=0.0, c=1.0, **changes):
    """The solution in the natural numbers of a problem that was solved in others."""
    problem, ends, rest = PROBLEMS[name]
    given = [tuple(o * (i == 0) + u * np.asarray(x) for i, x in enumerate(end)) for end in ends]
    found = da.solve(problem.replace(u=u, o=o, c=c), initial=given[0], final=given[1], **rest, **changes)
    return found, (found.q - o) / u


def test_the_unit_of_time_is_none_of_the_problem_either():
    clock = da.VariationalProblem(lambda q, v, p: 0.5 * (p["t"] * v) @ (p["t"] * v) + jnp.cos(q[0]), parameters={"t": 1.0})
    ends = {"initial": ([0.0],), "final": ([1.0],)}
    base = da.solve(clock, **ends, T=1.0, steps=60)
    for unit in (1e-9, 1e9):
        found = da.solve(clock.replace(t=unit), **ends, T=unit, steps=60)
        assert np.max(np.abs(found.q - base.q)) < 1e-14
        assert found.kind == base.kind


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_solution_is_the_same_in_all_units_and_from_all_origins(name):
    base, q = in_units(name)
    for change in UNITS:
        found, same = in_units(name, **change)
        far = abs(change.get("o", 0.0)) / change.get("u", 1.0)
        assert np.max(np.abs(same - q)) < (1e-13 + 2e-15 * far) * np.max(np.ptp(q, axis=0)), change
        assert found.kind == base.kind
        assert int(found.statistics.iterations) == int(base.statistics.iterations)
        assert 0.1 < float(found.statistics.condition) / float(base.statistics.condition) < 10.0
        assert float(found.action) == pytest.approx(change.get("c", 1.0) * float(base.action), rel=1e-8)


def test_jax_sums_judge_by_the_same_sizes(monkeypatch):
    kkt = import_module("dalembert.boundary.kkt.system")

    def none(*_):
        raise Unsupported("test", "no machine code")

    base, q = in_units("curve with a constraint")
    monkeypatch.setattr(kkt, "CompiledAssembly", none)
    import_module("dalembert.boundary.kinds")._READY.clear()  # the same problem is kept as it was prepared
    for change in ({}, {"u": 1e-9, "c": 1e12}, {"o": 1e6}):
        with pytest.warns(UserWarning, match="runs on JAX"):
            found, same = in_units("curve with a constraint", **change)
        assert np.max(np.abs(same - q)) < (2e-9 if "o" in change else 1e-13)
        assert found.kind == base.kind


def test_given_positions_come_back_bit_for_bit():
    """An origin of few digits: o + (q - o) is q."""
    for o in (0.0, 1e6 / 3, -np.pi * 1e9):
        ends = [o + np.array([0.1, -0.2]), o + np.array([0.7, 0.3])]
        free = da.VariationalProblem(lambda q, v: 0.5 * v @ v)
        found = da.solve(free, initial=(ends[0],), final=(ends[1],), through={0.5: ends[0] + 0.4}, T=1.0, steps=10)
        assert np.array_equal(found.q[[0, 5, 10]], [ends[0], ends[0] + 0.4, ends[1]])
        assert np.allclose(found.jets[:, 0].mean(axis=0), 0.5 * (found.q[1:] + found.q[:-1]).mean(axis=0), rtol=1e-12)


def force(q, v, a, p):
    return (1.3 * a[0] / p["u"] + 0.15 * (a[1] * jnp.cos(q[1]) - v[1] ** 2 * jnp.sin(q[1]))) ** 2


def pole(q, v, a, p):
    return 0.5 * a[1] + a[0] / p["u"] * jnp.cos(q[1]) + 9.81 * jnp.sin(q[1])


@pytest.mark.parametrize("place", [0.0, 1.0], ids=["back to where it began", "one metre further"])
def test_coordinates_with_units_of_their_own(place):
    """The cart of a swing-up in nanometres or in gigametres, the pole in radians. Back at its place, its size is that at
    which it has the inertia of the pole."""
    cart = da.VariationalProblem(force, pole, derivatives=2, parameters={"u": 1.0})
    paths = []
    for u in (1.0, 1e9, 1e-9):
        ends = {"initial": ([0.0, 0.0], [0.0, 0.0]), "final": ([place * u, np.pi], [0.0, 0.0])}
        found = da.solve(cart.replace(u=u), **ends, T=2.0, steps=40)
        assert found.kind == "minimum"
        paths.append(found.q / [u, 1.0])
    assert np.max(np.abs(paths[1] - paths[0])) < 1e-10
    assert np.max(np.abs(paths[2] - paths[0])) < 1e-10


def test_rounding_in_the_data_is_no_size():
    """A coordinate that is given as sin π and 0, and moves between."""
    problem = da.VariationalProblem(curve, law, derivatives=2, parameters=NATURAL)
    ends = {"initial": ([0.0, 0.0], [0.3, 0.0]), "T": 1.0, "steps": 20}
    exact = da.solve(problem, final=([0.5, 0.0],), **ends)
    for garbage in (np.sin(np.pi), 1e-14):
        assert np.max(np.abs(da.solve(problem, final=([0.5, garbage],), **ends).q - exact.q)) < 1e-13
    alone = da.VariationalProblem(beam, derivatives=2, parameters=NATURAL)
    rest = {"initial": ([0.0], [0.0]), "T": 1.0, "steps": 20}
    assert (
        np.max(np.abs(da.solve(alone, final=([1e-16], [0.0]), **rest).q - da.solve(alone, final=([0.0], [0.0]), **rest).q))
        < 1e-13
    )


def test_scales_take_the_place_of_the_sizes():
    """The update of a coordinate counts against s + max|q|, here s + 1."""
    found = {s: in_units("pendulum", solver=da.Solver(scales=[s]))[0].statistics for s in (1e-3, 1.0, 1e3)}
    assert len({int(f.iterations) for f in found.values()}) == 1
    updates = np.array([float(f.update) * (s + 1.0) for s, f in found.items()])
    assert np.allclose(updates, updates[0], rtol=1e-3)
    coarse = in_units("curve with a constraint", solver=da.Solver(scales=[1e6, 1e6]))[0].statistics
    assert int(coarse.iterations) < int(in_units("curve with a constraint")[0].statistics.iterations)
    for wrong in ([1.0, 2.0], [0.0], [-1.0], [np.nan], ["1"], 1.0):
        with pytest.raises((ValueError, TypeError), match="scales: found"):
            in_units("pendulum", solver=da.Solver(scales=wrong))


def test_a_batch_judges_every_problem_by_its_own_size():
    """A millionth of an amplitude is solved to as many digits."""
    problem = da.VariationalProblem(pendulum, parameters=NATURAL)
    ends = np.array([[1.0], [1e-6]])
    both = da.solve_batch(problem, initial=(0 * ends,), final=(ends,), T=1.0, steps=50)
    for one, end in zip(both, ends, strict=True):
        alone = da.solve(problem, initial=([0.0],), final=(end,), T=1.0, steps=50)
        assert np.max(np.abs(one.q - alone.q)) < 1e-13 * end[0]


def test_times_that_do_not_resolve_the_steps():
    free = da.VariationalProblem(lambda q, v: 0.5 * v @ v)
    times = 1e13 + np.linspace(0.0, 10.0, 101)
    with pytest.raises(ValueError, match=r"times: found steps of 0\.0\d+ at times up to 1e\+13"):
        da.solve(free, initial=([0.0],), final=([1.0],), times=times)


@pytest.mark.parametrize("u", [1e-10, 1.0, 1e6])
def test_points_off_a_small_or_a_large_sphere_are_refused(u):
    problem, ends, _ = PROBLEMS["sphere, in one loop of machine code"]
    for o in (0.0, 1e6 * u):
        given = [tuple(o * (i == 0) + u * np.asarray(x) for i, x in enumerate(end)) for end in ends]
        good = da.solve(problem.replace(u=u, o=o), initial=given[0], final=given[1], T=1.0, steps=20)
        assert good.kind == "minimum"
        off = (o + 3 * u * E[0], given[0][1])
        with pytest.raises(da.InconsistentDataError, match="initial: φ"):
            da.solve(problem.replace(u=u, o=o), initial=off, final=given[1], T=1.0, steps=20)
        slow = (given[0][0], given[0][1] + 1e-4 * u * E[0])
        with pytest.raises(da.InconsistentDataError, match="initial: dφ/dt"):
            da.solve(problem.replace(u=u, o=o), initial=slow, final=given[1], T=1.0, steps=20)
