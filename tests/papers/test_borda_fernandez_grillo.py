"""Borda, Fernández, Grillo: the tables, the orders behind the printed slopes, and the values of V.

The particle is compared with its closed form. The pendulum is compared with ṗ₁ = M sin θ, ṗ₂ = -ρ tanh u - K in momenta,
integrated here by diffrax: independent of the library's own index reduction, and quick to compile. All six steps of its
table are run, and every rule of the table of roots on the page.
"""

from types import SimpleNamespace

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.gallery import inertia_wheel_pendulum
from dalembert.options import Save
from papers.borda_fernandez_grillo import branches, particle, pendulum, sketches
from papers.convergence import EXACT, ONE_STEP, PRINTED
from papers.drawing import saving

P = inertia_wheel_pendulum.PARAMETERS

FOUR_DIGITS, THREE_DIGITS = 5e-5, 5e-4

PARTICLE = {  # largest error of x over [0, 500] for h = 0.2, 0.1, 0.05, 0.02, 0.01, 0.005
    PRINTED: (2.1122, 2.0441, 0.77560, 0.14163, 0.041470, 0.013386),
    EXACT: (2.0320, 2.0084, 0.85198, 0.14092, 0.035264, 0.0088168),
}
PENDULUM = {  # largest error of θ over [0, 2000] for h = 0.4, 0.2, 0.1, 0.05, 0.025, 0.0125
    PRINTED: (1.0685, 0.78425, 0.32871, 0.080440, 0.016646, 0.0082957),
    EXACT: (0.96991, 0.81448, 0.37565, 0.10283, 0.025815, 0.0064553),
}
ROOTS = {  # percent of the steps on u = 0, time of the first, V at the end, largest error of θ, at h = 0.1 (the page)
    "avoid the factor u (default)": (0.0, np.nan, 197.43, 0.329),
    "nearest to the previous θ (printed)": (35, 1.3, 214.33, 1.020),
    "nearest to the prediction": (4.59, 0.3, 43.54, 0.234),
    "least V": (2.7, 28.8, 197.72, 0.330),
}


@pytest.fixture(scope="module")
def wheel():
    """t, q, v of the continuous pendulum on a grid of 0.0125."""
    h_c, g_c, _ = inertia_wheel_pendulum.gains(P)
    determinant = 1 / (P["I"] * P["J"])  # ac - b²

    def velocity(p1, p2):
        rate = (p1 - p2) / P["I"]
        return rate, p2 / P["J"] - rate

    def field(t, y, _):
        theta, psi, p1, p2 = y
        torque = P["M"] * jnp.sin(theta)
        k = torque * (g_c - P["e"] / P["I"] / P["d"]) / h_c - P["chi"] * determinant / P["d"] * jnp.sin(psi - P["n"] * theta)
        return jnp.stack([*velocity(p1, p2), torque, -P["rho"] * jnp.tanh(g_c * p1 + h_c * p2) - k])

    times = 0.0125 * jnp.arange(160_001)
    start = jnp.array([0.5, 0.0, 0.5 * P["J"], 0.5 * P["J"]])
    accuracy = diffrax.PIDController(rtol=1e-10, atol=1e-10)
    y = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Dopri8(), 0.0, 2000.0, None, start,
        saveat=diffrax.SaveAt(ts=times), stepsize_controller=accuracy, max_steps=1_000_000,
    ).ys  # fmt: skip
    return SimpleNamespace(t=times, q=y[:, :2], v=jnp.stack(velocity(y[:, 2], y[:, 3]), axis=1))


@pytest.mark.parametrize("method", PARTICLE, ids=lambda method: method.name)
def test_errors_of_the_particle(method):
    measured = particle.convergence(method, particle.TIME).error
    assert measured == pytest.approx(np.array(PARTICLE[method]), rel=FOUR_DIGITS)


@pytest.mark.parametrize("method", PENDULUM, ids=lambda method: method.name)
def test_errors_of_the_pendulum(method, wheel):
    measured = pendulum.convergence(method, pendulum.TIME, wheel, pendulum.STEPS)[0].error
    assert measured == pytest.approx(np.array(PENDULUM[method]), rel=THREE_DIGITS)


@pytest.mark.parametrize(
    ("method", "order"),
    [(PRINTED, 1), (EXACT, 2), (ONE_STEP, 2)],
    ids=["printed", "exact", "one step"],
)
def test_orders_over_short_times(method, order, wheel):
    """The integrators are of order 2, and the printed start of order 1."""
    assert particle.convergence(method, particle.SHORT).slope() == pytest.approx(order, abs=0.05)
    errors, _ = pendulum.convergence(method, pendulum.SHORT, wheel, pendulum.SHORT_STEPS)
    assert errors.slope() == pytest.approx(order, abs=0.05)


def test_the_printed_error_is_a_turn_of_first_and_a_lag_of_second_order():
    """½(1+√2) h + (5/12)√2 T h² to one percent, at steps where neither term is small against the other."""
    measured = particle.convergence(PRINTED, particle.TIME, (0.01, 0.005))
    predicted = particle.predicted_error(measured.h, particle.TIME)
    assert measured.error == pytest.approx(predicted, rel=0.01)


@pytest.mark.parametrize("name", ROOTS)
def test_roots_that_the_rules_take(name, wheel):
    rule = branches.follow(name, branches.RULES[name], wheel)
    share, first, value, error = ROOTS[name]
    assert rule.outcome == "SUCCESS"
    assert 100 * rule.share == pytest.approx(share, rel=0.02)
    if name.startswith("nearest"):  # rounding decides what follows the first wrong step, and for the prediction when it is
        assert rule.first == pytest.approx(first, abs=0.05) or (name.endswith("prediction") and rule.first < 30.0)
        assert abs(rule.lyapunov[-1] - ROOTS["avoid the factor u (default)"][2]) > 10.0
        assert abs(rule.error - ROOTS["avoid the factor u (default)"][3]) > 0.05
        return
    assert rule.first == pytest.approx(first, abs=0.05, nan_ok=True)
    assert rule.lyapunov[-1] == pytest.approx(value, abs=0.005)
    assert rule.error == pytest.approx(error, abs=0.0005)


def test_v_has_not_vanished_at_500(wheel):
    found = [float(inertia_wheel_pendulum.lyapunov(wheel.q[k], wheel.v[k], P)) for k in (40_000, 80_000, 160_000)]
    assert found == pytest.approx([262.94, 198.75, 195.47], abs=0.005)


def test_v_creeps_with_the_time_constant_of_the_phase(wheel):
    """From t = 2000 the one step form, over 10000 time units: V = 2χ/(1 + cot²(γ/2) exp(2t/τ)) to half a percent."""
    path = ONE_STEP.simulate(pendulum.ENTRY.system, wheel.q[-1], wheel.v[-1], 0.1, 10_000.0, save=Save(every=10_000))
    t, q, v = pendulum.state(path)
    values = np.asarray(pendulum.lyapunov(q, v))
    assert values == pytest.approx(pendulum.creeping(np.asarray(t), values[0]), rel=5e-3)


def test_the_sketches_are_drawn(tmp_path):
    with saving(tmp_path) as save:
        sketches.draw(save)
    assert {file.name for file in tmp_path.iterdir()} == {"figure_1.png", "figure_4.png"}
