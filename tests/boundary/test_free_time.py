"""A free final time of variational problems: closed forms, the same extremal with T given, transversality, bounds, units."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import PROBLEMS

PUSHED = da.VariationalProblem(lambda q, v, t: 0.5 * v @ v + 2.0 + jnp.sin(3.0 * t) * q[0], time_dependent=True)
STEER = da.VariationalProblem(
    lambda q, v, a, p: (0.5 * p["f"] ** 4 * (a @ a) + 3.0) / p["f"], derivatives=2, parameters={"f": 1.0}
)
FROM, TO = {"initial": ([0.0],), "final": ([1.0],)}, {"initial": ([0.0], [1.0]), "final": ([1.0], [0.0])}


@functools.cache
def pushed(*bounds):
    return da.solve(PUSHED, **FROM, T=da.Free(*(bounds or (1.0,))), steps=20)


@functools.cache
def steered(guess=2.0, steps=20):
    return da.solve(STEER, **TO, T=da.Free(guess), steps=steps)


def value(T):
    return float(da.solve(PUSHED, **FROM, T=T, steps=20, certify=False).action)


def slope(T, d=1e-4):
    """dC/dT of the optimal value, by differences of order 4."""
    return (8.0 * (value(T + d) - value(T - d)) - (value(T + 2 * d) - value(T - 2 * d))) / (12.0 * d)


def test_the_optimal_value_does_not_change_with_a_free_final_time():
    found = pushed()
    assert abs(slope(float(found.t[-1]))) < 1e-9
    assert abs(found.final_time.slope) < 1e-12
    assert found.kind == "minimum"
    assert value(float(found.t[-1])) == pytest.approx(float(found.action), rel=1e-14)


@pytest.mark.parametrize(("bounds", "T", "side"), [((0.4, None, 0.4), 0.4, 1), ((1.0, 0.9, 3.0), 0.9, -1)])
def test_at_a_bound_its_multiplier_is_the_slope_of_the_optimal_value(bounds, T, side):
    found = pushed(*bounds)
    assert found.t[-1] == pytest.approx(T, rel=1e-9)
    assert int(found.final_time.active) == side
    assert float(found.final_time.slope) == pytest.approx(slope(T), rel=1e-7)
    assert found.kind == "minimum"
    assert "at its" in found.describe()


def test_the_extremal_is_that_with_this_time_given():
    """Also its jets, momenta and velocities; on uneven steps, from a first time that is not 0."""
    times = 3.0 + np.linspace(0.0, 1.0, 21) ** 1.3
    free = da.solve(STEER, **TO, T=da.Free(3.8), times=times)
    np.testing.assert_allclose((free.t - 3.0) / (free.t[-1] - 3.0), times - 3.0, rtol=0, atol=1e-14)
    fixed = da.solve(STEER, **TO, times=free.t)
    for name in ("q", "v", "jets", "momenta_initial", "momenta_final", "t_multipliers", "action"):
        np.testing.assert_allclose(getattr(free, name), getattr(fixed, name), rtol=1e-10, atol=1e-10)
    assert free.kind == fixed.kind == "minimum"


def test_hermite_windows_find_the_time_of_a_cubic():
    """½∫q̈² = (6 - 6v T + 2v²T²)/T³ with v = 1, and 3T."""
    found = da.solve(STEER, **TO, T=da.Free(1.0), steps=2, scheme=da.Hermite())
    T = [x.real for x in np.roots([3.0, 0.0, -2.0, 12.0, -18.0]) if abs(x.imag) < 1e-9 and x.real > 0.0]
    assert float(found.t[-1]) == pytest.approx(T[0], rel=1e-12)


@pytest.mark.parametrize("far", [0.2, 5.0])
@pytest.mark.parametrize("unit", [1.0 / 3600.0, 3600.0])
def test_other_units_and_guesses_far_off_find_the_same(far, unit):
    problem, wanted = STEER.replace(f=unit), steered()
    ends = {"initial": ([0.0], [1.0 / unit]), "final": ([1.0], [0.0])}
    found = da.solve(problem, **ends, T=da.Free(far * unit * float(wanted.t[-1])), steps=20)
    assert float(found.t[-1]) / unit == pytest.approx(float(wanted.t[-1]), rel=1e-11)
    assert found.kind == "minimum"
    assert found.statistics.iterations <= 20


def test_a_solution_with_another_time_is_a_guess():
    """Its times are stretched: on the same nodes nothing is left to do but the final time."""
    wanted = steered(steps=40)
    for T in (0.3, 5.0):
        found = da.solve(STEER, **TO, T=da.Free(T), steps=40, guess=steered())
        assert float(found.t[-1]) == pytest.approx(float(wanted.t[-1]), rel=1e-11)
    again = da.solve(STEER, **TO, T=da.Free(float(wanted.t[-1])), steps=40, guess=wanted)
    assert again.statistics.iterations == 1


def test_a_free_time_is_stored_pickled_and_described(tmp_path):
    da.save(pushed(1.0, 0.9, 3.0), tmp_path / "pushed.nc")
    found = da.load(tmp_path / "pushed.nc")
    jax.tree.map(np.testing.assert_array_equal, found, pushed(1.0, 0.9, 3.0))  # also what is NaN
    assert "final time 0.9" in found.describe()
    da.save(da.solve(PUSHED, **FROM, T=1.0, steps=20), tmp_path / "fixed.nc")
    assert da.load(tmp_path / "fixed.nc").final_time is None


def test_a_batch_has_a_time_of_its_own_for_every_problem():
    """Between rest and rest at a distance d T is √d times as long."""
    rest, ends = np.zeros((2, 1)), np.array([[1.0], [4.0]])
    one, two = da.solve_batch(STEER, initial=(rest, rest), final=(ends, rest), T=da.Free(1.0), steps=20)
    assert float(two.t[-1]) == pytest.approx(2.0 * float(one.t[-1]), rel=1e-10)
    np.testing.assert_allclose(two.jets[:, 2], one.jets[:, 2], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("lagrangian", "end", "words"),
    [(lambda q, v: 0.5 * v @ v, 1.0, "upper=…"), (lambda q, v: 0.5 * v @ v + 1.0, 0.0, "lower=…")],
    ids=["T grows", "T falls"],
)
def test_a_time_that_nothing_holds_is_told(lagrangian, end, words):
    found = da.solve(
        da.VariationalProblem(lagrangian), initial=([0.0],), final=([end],), T=da.Free(1.0), steps=5, throw=False
    )
    assert found.outcome is da.Outcome.NOT_CONVERGED
    assert words in found.describe()


def test_what_a_free_time_cannot_be_beside_is_named():
    discrete = da.VariationalProblem(lambda a, b: 0.5 * (b - a) @ (b - a))
    first, last = da.Nodes([[0.0]]), da.Nodes([[1.0]])
    with pytest.raises(ValueError, match=r"T: found Free together with scheme=Points\(\)"):
        da.solve(discrete, initial=first, final=last, T=da.Free(4.0), steps=4, scheme=da.Points())
    with pytest.raises(ValueError, match="seek: found 'extremal' together with bounds of T"):
        da.solve(STEER, **TO, T=da.Free(1.0, upper=2.0), steps=20, seek="extremal")
    with pytest.raises(ValueError, match="T: found Free with guess = 1; the first of times is 3"):
        da.solve(STEER, **TO, T=da.Free(1.0), times=np.linspace(3.0, 4.0, 11))


def errors(name, steps, **changed):
    entry = PROBLEMS[name]
    found = [da.solve(entry.problem, **{**entry.boundary, **changed}, steps=N, guess=entry.first_guess(N)) for N in steps]
    assert [s.kind for s in found] == ["minimum"] * len(steps)
    return np.array([float(s.action) for s in found]) - entry.cost, found


@pytest.mark.parametrize("name", ["brachistochrone", "elastica"])
def test_values_of_the_gallery_have_order_2(name):
    off, found = errors(name, (12, 24))
    assert np.log2(off[0] / off[1]) == pytest.approx(2.0, abs=0.02)
    assert (4.0 * off[1] - off[0]) / 3.0 == pytest.approx(0.0, abs=5e-5 * PROBLEMS[name].cost)
    if name == "brachistochrone":
        np.testing.assert_allclose([s.action for s in found], [s.t[-1] for s in found], rtol=1e-12)
        away = [np.abs(s.q - PROBLEMS[name].exact(s.t)).max() for s in found]
        assert np.log2(away[0] / away[1]) == pytest.approx(2.0, abs=0.02)


def test_a_dubins_path_turns_goes_straight_and_turns():
    """The switches fall anywhere within a step, so that N²(T - T_N) does not tend to a number, but stays bounded."""
    off, (_, found) = errors("dubins", (40, 80), T=da.Free(40.0))
    scaled = -off * np.array([1600.0, 6400.0])
    assert scaled.min() > 1.9
    assert scaled.max() < 2.2
    turns = found.jets[:, 0, 3] > 1.0 - 1e-6  # the curvature of the steps
    first, last = np.flatnonzero(~turns)[[0, -1]]
    assert not turns[first : last + 1].any()
    length, heading = np.hypot(4.0, 2.0), np.arctan2(2.0, 4.0)  # between the centres (0, 1) and (4, 3) of the circles
    assert (last + 1 - first) * found.t[1] == pytest.approx(length, abs=2.0 * found.t[1])
    assert found.q[(first + last) // 2, 2] == pytest.approx(heading, abs=1e-3)


def test_heisenberg_is_found_with_its_time():
    """½∫|q̇|² = π/T with T given; π/T + T/2 is least at T = √(2π), and is √(2π) there."""
    problem = da.VariationalProblem(
        lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.5,
        da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0] + q[0] * v[1]),
    )
    T, values = [], []
    for N in (14, 28):
        t = np.linspace(0.0, 1.0, N + 1)
        circle = np.stack([np.sin(2 * np.pi * t), np.cos(2 * np.pi * t) - 1.0, 6.0 * t], axis=1) / 6.0
        found = da.solve(problem, initial=(np.zeros(3),), final=([0.0, 0.0, 1.0],), T=da.Free(1.0), steps=N, guess=circle)
        T.append(float(found.t[-1]))
        values.append(float(found.action))
    assert (4.0 * T[1] - T[0]) / 3.0 == pytest.approx(np.sqrt(2.0 * np.pi), rel=1e-4)
    assert (4.0 * values[1] - values[0]) / 3.0 == pytest.approx(np.sqrt(2.0 * np.pi), rel=1e-4)


def test_a_free_time_is_a_value():
    assert da.Free(1) == da.Free(1.0)
    assert dataclasses.replace(da.Free(1.0, 0.5), guess=2.0) == da.Free(2.0, lower=0.5)


def test_the_shortest_way_around_a_disc_with_a_free_time():
    """½(|q̇|² + 1) is least at unit speed, where T is the length: two tangents and an arc; of order 2."""
    a, b, errors = np.array([-2.0, 0.5]), np.array([2.0, 0.5]), []
    away = np.array([np.linalg.norm(a), np.linalg.norm(b)])
    length = np.sqrt(away**2 - 1.0).sum() + np.arccos(a @ b / away.prod()) - np.arccos(1.0 / away).sum()
    problem = da.VariationalProblem(lambda q, v: 0.5 * (v @ v + 1.0))
    for steps in (40, 160):
        guess = np.linspace(a, b, steps + 1)
        guess[:, 1] += np.sin(np.linspace(0.0, np.pi, steps + 1))
        disc = {"inequalities": lambda q, v: 1.0 - q @ q}
        found = da.solve(problem, initial=(a,), final=(b,), T=da.Free(6.0), steps=steps, guess=guess, **disc)
        limits = found.bounds["inequalities"]
        assert limits.t[-1] == found.t[-1]
        assert limits.values.max() < 1e-8
        errors.append(abs(float(found.t[-1]) - length))
    assert errors[0] / errors[1] == pytest.approx(16.0, rel=0.1)
