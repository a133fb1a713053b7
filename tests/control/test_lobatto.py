"""Order 4 with forces as unknowns: a pendulum against Pontryagin's equations by SciPy, bounds against a closed form."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_bvp

import dalembert as da
from dalembert.gallery import knife_edge

ANGLE = da.OptimalControl(
    da.System(lambda q, v: 0.5 * v @ v + 3.0 * jnp.cos(q[0]), forces=lambda q, v: -0.2 * v),
    cost=lambda q, v, u: u @ u + 0.5 * v @ v,
    actuated=0,
)
PLANE = da.OptimalControl(
    da.System(lambda q, v: 0.5 * v @ v - 3.0 * q[1], da.Holonomic(lambda q: q @ q - 1.0), forces=lambda q, v: -0.2 * v),
    cost=lambda q, v, u: u @ u + 0.5 * v @ v,
    actuated=lambda q: jnp.array([-q[1], q[0]]),
)
LAST, T = 2.0, 1.5
MASS = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)
REST = ([0.0], [0.0])


@pytest.fixture(scope="module")
def exact():
    """(θ, v, λ_θ, λ_v, J) of H = u² + v²/2 + λ_θ v + λ_v (u - 3 sin θ - v/5), u = -λ_v/2."""

    def rates(t, y):
        q, v, a, b, _ = y
        u = -0.5 * b
        return np.stack([v, u - 3.0 * np.sin(q) - 0.2 * v, 3.0 * np.cos(q) * b, 0.2 * b - a - v, u**2 + 0.5 * v**2])

    def ends(y0, y1):
        return np.array([y0[0], y0[1], y1[0] - LAST, y1[1], y0[4]])

    t = np.linspace(0.0, T, 41)
    found = solve_bvp(rates, ends, t, np.stack([LAST * t / T, 0 * t + 1.0, 0 * t, 0 * t, t]), tol=1e-9, max_nodes=20_000)
    assert found.success
    return found.sol


def test_paths_controls_costates_and_cost_have_order_4(exact):
    errors = []
    for steps in (10, 20, 40):
        s = da.solve(
            ANGLE,
            initial=REST,
            final=([LAST], [0.0]),
            T=T,
            steps=steps,
            scheme=da.Lobatto(),
            solver=da.Solver(tolerance=1e-11),
        )
        q, v, *_, adjoint, cost = exact(s.t)
        assert s.kind == "minimum"
        parts = (
            s.q[:, 0] - q,
            s.v[:, 0] - v,
            s.u[:, 0] + 0.5 * adjoint,
            s.costates_final[:, 0] + exact(T)[2:4],
            s.cost - cost[-1],
        )
        errors.append([np.abs(x).max() for x in parts])
    np.testing.assert_allclose(np.log2(np.divide(errors[1], errors[2])), 4.0, rtol=0, atol=0.25)
    assert errors[2][4] < 2e-5 * cost[-1]


def test_with_a_holonomic_constraint(exact):
    """The same pendulum in the plane."""
    end, errors = [np.sin(LAST), -np.cos(LAST)], []
    for steps in (20, 40):
        turned = LAST * np.linspace(0.0, 1.0, steps + 1)
        given = {"initial": ([0.0, -1.0], [0.0, 0.0]), "final": (end, [0.0, 0.0]), "T": T, "steps": steps}
        guess = np.stack([np.sin(turned), -np.cos(turned)], axis=1)
        s = da.solve(PLANE, **given, scheme=da.Lobatto(), guess=guess, solver=da.Solver(tolerance=1e-11), certify=False)
        q, *_, adjoint, cost = exact(s.t)
        parts = s.q[:, 0] - np.sin(q), s.u[:, 0] + 0.5 * adjoint, s.cost - cost[-1]
        errors.append([np.abs(x).max() for x in parts])
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 4.0, rtol=0, atol=0.3)


def test_bounds_are_exact_with_nodes_at_the_switches():
    """|u| ≤ 5: u is linear between the switches, on which a cubic path is met exactly; its multiplier is 2(u - 5) beyond."""
    early = 0.5 - np.sqrt(0.15)  # ∫(1/2 - t)u dt = 1
    arcs = [np.linspace(0.0, early, 5), np.linspace(early, 1.0 - early, 9), np.linspace(1.0 - early, 1.0, 5)]
    t = np.concatenate([arcs[0], arcs[1][1:], arcs[2][1:]])
    s = da.solve(MASS, initial=REST, final=([1.0], [0.0]), times=t, bounds={"u": (-5.0, 5.0)}, scheme=da.Lobatto(),
                 solver=da.Solver(tolerance=1e-11))  # fmt: skip
    assert float(s.cost) == pytest.approx(50.0 * early + 50.0 / 3.0 * np.sqrt(0.15), abs=1e-8)
    slope = 5.0 / (0.5 - early)
    free = slope * (0.5 - t)
    at = np.abs(free) > 5.0 + 1e-9
    assert np.all(s.bounds["u"].active[at, 0] == np.sign(free[at]))
    assert not np.any(s.bounds["u"].active[np.abs(free) < 5.0 - 1e-9])
    np.testing.assert_allclose(
        s.bounds["u"].multipliers[at, 0], 2.0 * (free - np.clip(free, -5.0, 5.0))[at], rtol=0, atol=1e-5
    )


def test_what_parabolas_do_not_take_is_told():
    ends = {"initial": REST, "final": ([1.0], [0.0])}
    fourth = {"scheme": da.Lobatto()}
    for message, given in (
        (r"^scheme: found Lobatto\(\) together with 5 steps", {"T": 1.0, "steps": 5}),
        (r"^scheme: found Lobatto\(\) together with 4 steps", {"times": [0.0, 0.2, 0.5, 0.75, 1.0]}),
        (r"^scheme: found Lobatto\(\) together with bounds\['v'\]", {"T": 1.0, "steps": 4, "bounds": {"v": (None, 2.0)}}),
        (
            r"^scheme: found Lobatto\(\) together with inequalities",
            {"T": 1.0, "steps": 4, "inequalities": lambda q, v, u: u[0] - 9.0},
        ),
    ):
        with pytest.raises(ValueError, match=message):
            da.solve(MASS, **ends, **given, **fourth)
    still = [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=r"^scheme: found Lobatto\(\) for a plant with Nonholonomic constraints"):
        da.solve(knife_edge.knife_edge(), initial=(still, still), final=([1.0, 0.0, 0.0], still), T=1.0, steps=4, **fourth)
    plan = da.solve(MASS, **ends, T=1.0, steps=4, **fourth)
    with pytest.raises(ValueError, match=r"^scheme: found Lobatto\(\); refine extrapolates"):
        da.refine(MASS, plan, **ends, **fourth)
    with pytest.raises(ValueError, match=r"^solution: found one of scheme=Lobatto\(\), for which"):
        da.sensitivity(MASS, plan, **ends)
