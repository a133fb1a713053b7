"""Problems whose smooth first path leads nowhere: a line through the middle of a disc; limits brought in by steps."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

REST = [0.0, 0.0]
point = da.OptimalControl(
    da.System(lambda q, v: 0.5 * v @ v, coordinates=("x", "y")), cost=lambda q, v, u: u @ u, actuated=("x", "y")
)
pendulum = da.OptimalControl(
    da.System(lambda q, v: 0.5 * v @ v + 9.81 * jnp.cos(q[0]), coordinates=("angle",)),
    cost=lambda q, v, u: u @ u,
    actuated=0,
)


def acrobot_lagrangian(q, v):
    """Two uniform rods of 1 kg and 0.5 m; the second angle relative to the first."""
    both, turn = q[0] + q[1], v[0] + v[1]
    kinetic = (0.25 * v[0] ** 2 + 0.25 * turn**2) / 6.0 + 0.125 * v[0] ** 2 + 0.125 * v[0] * turn * jnp.cos(q[1])
    return kinetic + 9.81 * (0.75 * jnp.cos(q[0]) + 0.25 * jnp.cos(both))


acrobot = da.OptimalControl(
    da.System(acrobot_lagrangian, coordinates=("shoulder", "elbow")), cost=lambda q, v, u: u @ u, actuated="elbow"
)
SWING_UP = {"initial": (REST, REST), "final": ([np.pi, 0.0], REST), "T": 2.0, "steps": 40, "bounds": {"u": (-4.0, 4.0)}}


def disc(radius):
    return lambda q, v, u: radius**2 - (q[0] - 2.0) ** 2 - q[1] ** 2


def past_a_disc(radius, **options):
    ends = {"initial": (REST, REST), "final": ([4.0, 0.0], REST), "T": 2.0, "steps": 100}
    return da.solve(point, **ends, inequalities=disc(radius), **options)


@pytest.mark.parametrize("guess", [None, "homotopy"])
def test_a_disc_in_the_middle_of_the_line_is_passed(guess):
    """Through (2, ±1.8) it goes at x = 2. Along x at least 12 Δx²/T³ = 24, along y, from rest through 1.8 to rest again, at
    least 192·1.8²/T³; more, as it also stays outside before and after."""
    found = past_a_disc(1.8, guess=guess)
    assert found.outcome is da.Outcome.SUCCESS
    far = np.hypot(found.q[:, 0] - 2.0, found.q[:, 1])
    assert far.min() >= 1.8 - 1e-6
    least = 24.0 + 192.0 * 1.8**2 / 8.0
    assert least - 1e-3 <= float(found.cost) < 1.2 * least


def test_limits_brought_in_by_steps_solve_what_the_first_path_does_not():
    """From the smooth path IPOPT, too, ends at "Infeasible_Problem_Detected". Random guesses find costs from 3.99 on."""
    alone = da.solve(acrobot, **SWING_UP, throw=False)
    assert alone.outcome is not da.Outcome.SUCCESS
    found = da.solve(acrobot, **SWING_UP, guess="homotopy")
    assert found.kind == "minimum"
    assert np.abs(found.u).max() <= 4.0 + 1e-9
    again = da.solve(acrobot, **SWING_UP, guess=found)
    assert float(again.cost) == pytest.approx(float(found.cost), rel=1e-9)


def test_a_pendulum_that_is_too_weak_swings_several_times():
    """With 0.2 of the torque that holds it level; the work is what lifts it, 2mgl."""
    limit = 0.2 * 9.81
    found = da.solve(
        pendulum, initial=([0.0], [0.0]), final=([np.pi], [0.0]), T=10.0, steps=100, bounds={"u": (-limit, limit)},
        guess="homotopy",
    )  # fmt: skip
    assert found.kind == "minimum"
    turns = np.count_nonzero(np.diff(np.sign(found.v[1:-1, 0])))
    assert turns >= 2
    work = np.sum(0.5 * (found.u[1:, 0] + found.u[:-1, 0]) * np.diff(found.q[:, 0]))
    assert work == pytest.approx(2.0 * 9.81, rel=2e-2)


def test_limits_that_no_motion_keeps_say_how_far_they_were_brought_in():
    """At rest to rest over 4 in 2 s needs |u| ≥ 4 |Δx|/T² = 4: with 3.2 the motion is that of a part of the way."""
    found = da.solve(
        point, initial=(REST, REST), final=([4.0, 0.0], REST), T=2.0, steps=40, bounds={"u": (-3.2, 3.2)}, guess="homotopy",
        throw=False,
    )  # fmt: skip
    assert found.outcome is da.Outcome.NOT_CONVERGED
    came = float(found.remark.split("came ")[1].split(" %")[0]) / 100.0
    widest = 6.0  # of the cubic, 6 Δx/T²
    kept = 3.2 + (1.0 - came) * (widest - 3.2)
    assert 4.0 - 1e-6 <= kept < 4.3  # the nearest that any motion keeps is 4
    assert np.abs(found.u).max() == pytest.approx(kept, abs=2e-2)


def test_homotopy_needs_limits_and_an_optimal_control():
    ends = {"initial": (REST, REST), "final": ([1.0, 0.0], REST), "T": 1.0, "steps": 10}
    with pytest.raises(ValueError, match=r"guess: found 'homotopy' without bounds= and inequalities="):
        da.solve(point, **ends, guess="homotopy")
    with pytest.raises(ValueError, match=r"guess: found 'homotopie'"):
        da.solve(point, **ends, guess="homotopie")
    beam = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
    with pytest.raises((TypeError, ValueError), match="guess"):
        da.solve(beam, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=10, guess="homotopy")
