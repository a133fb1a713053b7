"""Variational problems that end on a set or periodically, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

LINE = da.VariationalProblem(lambda q, v: 0.5 * v @ v, coordinates=("x", "y"))
START = np.array([3.0, 0.5])


def test_the_nearest_point_of_a_circle():
    """The momentum is normal to the circle, far from the origin."""
    middle = np.array([1e6, 0.0])
    circle = da.On(lambda q: (q - middle) @ (q - middle) - 1.0)
    found = da.solve(LINE, initial=(START + middle,), final=circle, T=1.0, steps=10)
    nearest = START / np.linalg.norm(START)
    assert found.kind == "minimum"
    np.testing.assert_allclose(found.q[-1] - middle, nearest, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.momenta_final[0], nearest - START, rtol=0, atol=1e-8)


def test_the_shortest_way_between_two_circles_from_many_guesses():
    small, large = da.On(lambda q: q @ q - 1.0), da.On(lambda q: (q - 4.0) @ (q - 4.0) - 4.0)
    guesses = np.linspace([1.0, 0.0], [2.0, 4.0], 11)[None]
    found = da.multistart(LINE, guesses, initial=small, final=large, T=1.0, steps=10)
    assert found.hits == [1]
    assert float(found.solutions[0].action) == pytest.approx(0.5 * (4.0 * np.sqrt(2.0) - 3.0) ** 2, rel=1e-9)


def test_hermite_windows_reach_a_line_of_the_phase_plane_exactly():
    """The least effort to q + v = 1 is 3/7, of a cubic."""
    beam = da.VariationalProblem(lambda q, v, a: a @ a, derivatives=2)
    line = da.On(lambda q, v: q[0] + v[0] - 1.0)
    found = da.solve(beam, initial=([0.0], [0.0]), final=line, T=1.0, steps=4, scheme=da.Hermite())
    assert float(found.action) == pytest.approx(3.0 / 7.0, rel=1e-12)
    np.testing.assert_allclose(found.momenta_final[:, 0], [6.0 / 7.0] * 2, rtol=1e-9)


def test_a_periodic_beam_of_fourth_order():
    """A load cos t on an elastic ground of stiffness 1: half the load is the periodic solution; momenta repeat."""
    load = da.VariationalProblem(
        lambda q, v, a, t: 0.5 * a @ a + 0.5 * (q[0] - jnp.cos(t)) ** 2,
        derivatives=2,
        time_dependent=True,
        coordinates=("x",),
    )
    errors = []
    for steps in (20, 40):
        found = da.solve(load, final=da.Periodic(), T=2 * np.pi, steps=steps, scheme=da.Hermite())
        errors.append(np.abs(found.q[:, 0] - 0.5 * np.cos(found.t)).max())
        np.testing.assert_allclose(found.momenta_initial, found.momenta_final, rtol=0, atol=1e-9)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4.0, abs=0.05)


def test_a_set_on_a_manifold_is_reached_and_its_own_equation_is_no_set():
    """Half the squared arc from the equator to a parallel of the sphere, and a set that repeats the constraint."""
    sphere = da.VariationalProblem(lambda q, v: 0.5 * v @ v, da.Holonomic(lambda q: q @ q - 1.0))
    guess = np.linspace([1.0, 0.0, 0.0], [0.8, 0.1, 0.6], 21)
    given = {"initial": ([1.0, 0.0, 0.0],), "T": 1.0, "guess": guess, "steps": 20}
    found = da.solve(sphere, **given, final=da.On(lambda q: q[2] - 0.6))
    np.testing.assert_allclose(found.q[-1], [0.8, 0.0, 0.6], rtol=0, atol=1e-9)
    assert float(found.action) == pytest.approx(0.5 * np.arcsin(0.6) ** 2, rel=1e-3)
    with pytest.raises(da.RankDeficientError, match="final: the 2 equations"):
        da.solve(sphere, **given, final=da.On(lambda q: q @ q - 1.0))


def test_what_cannot_be_is_named():
    ends = {"initial": (np.ones((2, 2)),), "final": da.On(lambda q: q @ q - 1.0), "T": 1.0, "steps": 5}
    with pytest.raises(TypeError, match="final: found On"):
        da.solve_batch(LINE, **ends)
    with pytest.raises(TypeError, match="final: found Periodic together with Nodes"):
        da.solve(LINE, initial=da.Nodes([START]), final=da.Periodic(), T=1.0, steps=5)
    slow = da.VariationalProblem(lambda q, v, a: a @ a, da.Nonholonomic(lambda q, v: v[0] - q[1]), derivatives=2)
    with pytest.raises(ValueError, match="final: found Periodic together with constraints of lower order"):
        da.solve(slow, initial=(START,), final=da.Periodic(), T=1.0, steps=5)


def test_multipliers_of_a_set_are_the_price_of_its_level():
    """Differences of the optimal action, at both ends; two equations of q and v, one of them far from linear."""
    load = da.VariationalProblem(
        lambda q, v, a, p: 0.5 * a @ a + 0.3 * (v @ v) ** 2, derivatives=2, parameters={"c": np.array([0.5, 0.0, 0.0])}
    )
    first = da.On(lambda q, v, p: q[0] ** 3 + v[0] - p["c"][0])
    last = da.On(lambda q, v, p: jnp.stack([q[0] - 1.0, v[0] * q[0]]) - p["c"][1:])

    def solved(change):
        moved = load.replace(c=np.array([0.5, 0.0, 0.0]) + change)
        return da.solve(moved, initial=first, final=last, T=1.0, steps=8, guess=np.linspace(0.3, 1.0, 9)[:, None])

    plain, step = solved(0.0), 1e-4
    far = [(float(solved(d).action) - float(solved(-d).action)) / (2 * step) for d in step * np.eye(3)]
    np.testing.assert_allclose([*plain.end_multipliers_initial, *plain.end_multipliers_final], far, rtol=1e-5)
    q, v, nu = plain.q[-1, 0], plain.v[-1, 0], plain.end_multipliers_final
    np.testing.assert_allclose(plain.momenta_final[:, 0], [nu[0] + v * nu[1], q * nu[1]], rtol=0, atol=1e-7)
    begin = plain.end_multipliers_initial[0] * np.array([3.0 * plain.q[0, 0] ** 2, 1.0])
    np.testing.assert_allclose(plain.momenta_initial[:, 0], -begin, rtol=0, atol=1e-7)


def test_multipliers_of_a_set_are_stored(tmp_path):
    found = da.solve(LINE, initial=(START,), final=da.On(lambda q: q @ q - 1.0), T=1.0, steps=10)
    assert found.end_multipliers_initial is None
    assert found.end_multipliers_final.shape == (1,)
    da.save(found, tmp_path / "found.nc")
    again = da.load(tmp_path / "found.nc")
    np.testing.assert_array_equal(again.end_multipliers_final, found.end_multipliers_final)
    assert again.end_multipliers_initial is None
