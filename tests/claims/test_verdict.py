"""verdict: promises that theorems make hold, planted violations are found, and what is not promised is not claimed."""

import dataclasses
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.claims import Finding, balance, convergence, geometry, judge
from dalembert.claims.subject import RunData
from dalembert.gallery import ENTRIES

HOLDS, FAILS, NOT_CLAIMED = Finding.HOLDS, Finding.FAILS, Finding.HYPOTHESIS_FAILS


def subject(system, q0, v0, h=0.05, steps=200, scheme=None, **given):
    start = RunData(np.array(q0, dtype=float), np.array(v0, dtype=float), 0.0, h, steps, given)
    return judge.subject_of(system, scheme or da.Scheme(), start)


def of_gallery(name, **given):
    entry = ENTRIES[name]
    return subject(entry.system, entry.q0, entry.v0, **{"h": entry.h, **given})


@pytest.fixture(scope="module")
def particle():
    return of_gallery("nonholonomic_particle")


def test_a_nonholonomic_system_keeps_what_its_theorems_say_and_no_more():
    entry = ENTRIES["nonholonomic_particle"]
    found = da.verdict(entry.system, None, entry.q0, entry.v0, h=entry.h, steps=100)
    assert found.holds
    assert not found.broken
    wanted = {
        "one motion": HOLDS, "the discrete flow exists": HOLDS, "constraints[0]": HOLDS, "the states lie in D": HOLDS,
        "momentum of x": NOT_CLAIMED, "momentum of y": HOLDS, "a step is symplectic": NOT_CLAIMED, "F*Ω": HOLDS,
        "a step of -h": HOLDS, "with -v a run": HOLDS, "q of order 2": HOLDS, "multipliers of order 2": HOLDS,
    }  # fmt: skip
    assert {name: found[name].finding for name in wanted} == wanted
    assert found["F*Ω"].measured < 1e-12
    assert "up to 0.15" in found["F*Ω"].reason  # both sides are not zero
    assert abs(found["q of order 2"].measured - 2.0) < 0.02
    assert "the states lie in D" in str(found)
    assert "Scheme()" in str(found)
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert read["holds"] is True
    assert [row["measured"] is None for row in read["claims"]].count(True) >= 2
    with pytest.raises(KeyError, match="there are"):
        _ = found["the sun rises"]


def test_a_constraint_that_is_left_is_seen(particle):
    path = particle.path
    off = dataclasses.replace(path, q=jnp.asarray(path.q), v=jnp.asarray(path.v).at[50, 2].add(1e-9))
    assert [c.finding for c in geometry.constraints(particle)] == [HOLDS]
    moved = dataclasses.replace(particle, path=off)
    assert [c.finding for c in geometry.constraints(moved)] == [FAILS]
    q, v, t = particle.states
    beside = dataclasses.replace(particle, states=(q, v + 1e-9, t))
    assert [c.finding for c in geometry.distribution(beside)] == [FAILS]


def test_velocities_that_are_differences_of_distant_positions_are_rounded():
    """At q = 10⁶ a difference over h = 0.05 is right to 2e-9, which breaks no constraint; 1e-3 does."""
    bent = da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: a[1] - 0.4 * v[0] * v[1]))
    found = subject(bent, [1e6, 1e6], [1.0, 0.3], steps=40, scheme=da.Scheme("kick_drift_kick"))
    (claim,) = geometry.constraints(found)
    assert claim.finding is HOLDS
    assert 1e-11 < claim.measured < 1e-8
    assert claim.tolerance < 1e-3


def test_d_is_not_claimed_at_states_where_the_scheme_does_not_keep_it():
    entry = ENTRIES["nonholonomic_particle"]
    scheme = da.Scheme.jimenez_scheurle(0.5, redefined=False)
    off = subject(entry.system, entry.q0, entry.v0, scheme=scheme, steps=20)
    (claim,) = geometry.distribution(off)
    assert claim.finding is NOT_CLAIMED
    assert "states elsewhere" in claim.reason
    assert scheme.claims(entry.system).order == 1
    assert "not symmetric" in geometry.reversible(off).reason


def test_a_drift_of_the_energy_is_told_from_oscillation_and_from_a_way_between_two_places():
    t = np.linspace(0.0, 100.0, 1001)
    swinging = 1.0 + 1e-3 * np.sin(1.3 * t) ** 3
    passing = 1.0 + 1e-3 / (1.0 + t) ** 2
    creeping = swinging + 1e-5 * t
    lost = np.exp(-0.01 * t)
    for values, drifts, settling in (
        (swinging, False, None), (passing, False, True), (creeping, True, False), (0.1 * passing + 1e-5 * t, True, False),
        (lost, True, False), (np.exp(-0.05 * t), True, True),
    ):  # fmt: skip
        found, chance, settles = balance.drift_of(t, values)
        assert (abs(found) > chance) is drifts
        assert settling is None or settles is settling
    # On the way between two places the change falls with the order of the step; what is lost for good does not.
    assert balance.by_order(1e-3, 2.6e-4, 2, 1e-12).finding is HOLDS
    assert balance.by_order(0.7, 0.6, 2, 1e-12).finding is FAILS


def test_a_drift_by_rounding_of_the_work_is_none():
    """E = 0 here and the mid-point rule keeps it, while forces do work of up to 500 a unit of time: each is rounded."""
    found = subject(da.System(lambda q, v: 0.5 * v @ v - 50.0 * q @ q + 50.0), [1.0], [0.0], h=0.01)
    claim, time = balance.energy_drift(found), balance.LONGER * 0.01 * 200
    assert claim.finding is HOLDS
    assert claim.measured < 1e-11
    assert np.finfo(float).eps * 500.0 * time < claim.tolerance < 1e-8


@pytest.mark.parametrize("name", ["contact_oscillator", "vertical_rolling_disk", "climbing_orbit"])
def test_a_scheme_that_loses_energy_is_told(name):
    """β = 0 loses 40 to 78 % of it; the loss was its own tolerance."""
    entry = ENTRIES[name]
    found = subject(entry.system, entry.q0, entry.v0, h=entry.h, steps=200, scheme=da.Scheme.jimenez_scheurle(0.0))
    claim = balance.energy_drift(found)
    assert claim.finding is NOT_CLAIMED
    assert "neither symmetric nor symplectic" in claim.reason
    symmetric = balance.energy_drift(subject(entry.system, entry.q0, entry.v0, h=entry.h, steps=200))
    assert symmetric.finding is HOLDS


def test_the_cause_of_a_drift_is_named():
    """ż sin z is an exact term of L, which the motion does not see and the scheme does: E drifts by its h² and h⁴ terms."""
    entry = ENTRIES["contact_oscillator"]
    action = lambda q, v, p: entry.system.lagrangian(q, v, p) + v[2] * jnp.sin(q[2])  # noqa: E731
    seen = dataclasses.replace(entry.system, lagrangian=action)
    claim = balance.energy_drift(subject(seen, entry.q0, entry.v0, h=2 * np.sin(np.pi / 40), steps=400))
    assert claim.finding is FAILS
    predicted = float(claim.reason.partition("up to h^4 makes it drift by ")[2])
    assert predicted == pytest.approx(claim.measured, rel=0.1)


class TooFast(da.TripleMap):
    """The central accelerations times 1.05: no scheme of any order."""

    def __call__(self, q, d0, d1, h):
        return q, (d0 + d1) / (2 * h), 1.05 * (d1 - d0) / h**2


def test_what_does_not_converge_is_told():
    entry = ENTRIES["curvature_particle"]
    found = da.verdict(entry.system, da.Scheme("nodes", kinematic=TooFast()), entry.q0, entry.v0, h=0.05, steps=40)
    assert not found.holds
    assert any("of order" in claim.claim for claim in found.broken)


@pytest.mark.parametrize(("order", "h"), [(6, 0.02), (8, 0.05), (10, 0.05)])
def test_high_orders_are_measured(order, h):
    """With steps so long that the errors stand above rounding; where there is none, that is said."""
    entry = ENTRIES["spherical_pendulum"]
    claims = list(
        convergence.orders(subject(entry.system, entry.q0, entry.v0, h=h, steps=20, scheme=da.Scheme(order=order)))
    )
    assert [claim.finding for claim in claims] == [HOLDS] * 3
    assert all(claim.measured != order and abs(claim.measured - order) < 0.8 for claim in claims)
    free = subject(da.System(lambda q, v: 0.5 * v @ v), [0.0], [1.0], h=h, steps=20, scheme=da.Scheme(order=order))
    for claim in convergence.orders(free):
        assert claim.finding is HOLDS
        assert claim.reason.startswith("exact: errors are rounding at every step")
        assert np.isnan(claim.measured)


def test_an_order_is_measured_where_one_longer_step_lifts_all_errors_above_rounding():
    """At 4h all errors of λ stand above rounding, at 2h all but one are below."""
    found = {
        claim.claim: claim
        for claim in convergence.orders(of_gallery("car_with_trailers", steps=20, scheme=da.Scheme(order=6)))
    }
    assert abs(found["multipliers of order 6"].measured - 6.0) < 0.5


def test_forces_with_power_and_a_wrong_sign_in_a_reaction_end_the_claim_on_energy():
    friction = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, forces=lambda q, v: -0.1 * v)
    claim = balance.energy_drift(subject(friction, [1.0], [0.0], steps=80))
    assert claim.finding is NOT_CLAIMED
    assert "forces have power" in claim.reason
    wrong = da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0], reactions=lambda q, v: jnp.array([q[1], 0.0, 1.0]))
    claim = balance.energy_drift(
        subject(da.System(lambda q, v: 0.5 * v @ v, wrong), [0.0, 0.4, 0.0], [1.0, 0.5, 0.4], h=0.01, steps=80)
    )
    assert claim.finding is NOT_CLAIMED
    assert "reactions have power" in claim.reason


def test_momenta_of_symmetries_whole_broken_and_bent():
    flat = lambda q, v: 0.5 * v @ v - 0.5 * (q @ q) ** 2  # noqa: E731
    turning = {"rotation": lambda q: jnp.array([-q[1], q[0]])}
    round_one = subject(da.System(flat), [1.0, 0.0], [0.1, 0.8], steps=100)
    (claim,) = balance.momenta(round_one, turning)
    assert claim.finding is HOLDS
    assert claim.measured < 1e-13
    dented = subject(da.System(lambda q, v: flat(q, v) - 1e-4 * q[0]), [1.0, 0.0], [0.1, 0.8], steps=100)
    (claim,) = balance.momenta(dented, turning)
    assert claim.finding is NOT_CLAIMED
    assert "L changes along it" in claim.reason
    # A plane in (x, Y + sin 3x): the symmetry is one of L, and not of L_d, because it is not affine.
    height = lambda q: q[1] - jnp.sin(3 * q[0])  # noqa: E731
    bent = da.System(lambda q, v: 0.5 * v[0] ** 2 + 0.5 * (v[1] - 3 * jnp.cos(3 * q[0]) * v[0]) ** 2 - 0.5 * height(q) ** 2)
    claims = list(
        balance.momenta(
            subject(bent, [0.3, 0.0], [0.5, 0.2], steps=100), {"x": lambda q: jnp.array([1.0, 3 * jnp.cos(3 * q[0])])}
        )
    )
    assert [c.finding for c in claims] == [FAILS]


@pytest.mark.parametrize("form", ["drift_kick_drift", "kick_drift_kick"])
def test_a_step_is_symplectic_in_both_forms_and_a_damped_one_is_not(form):
    free = da.System(lambda q, v: 0.5 * (1.0 + q[0] ** 2) * v @ v - jnp.cos(q[0]) - q[0] * q[1] ** 2)
    seen = subject(free, [0.4, 0.1], [0.3, 0.2], h=0.2, steps=30, scheme=da.Scheme(form))
    claim = geometry.symplectic(seen)
    assert claim.finding is HOLDS
    assert claim.measured < 1e-9
    damped = dataclasses.replace(seen.system, forces=lambda q, v: -0.01 * v)
    assert geometry.symplectic(dataclasses.replace(seen, system=damped)).finding is NOT_CLAIMED
    assert geometry.change(dataclasses.replace(seen, system=damped), 5) > 1e-4


def test_stages_of_drift_kick_drift_keep_no_common_form():
    """Each keeps ω + (γh)²/4 dL_q∧dv; a composition in kick_drift_kick is symplectic."""
    entry = ENTRIES["pendulum"]
    composed = {form: subject(entry.system, entry.q0, entry.v0, h=0.4, steps=20, scheme=da.Scheme(form, order=4))
                for form in ("drift_kick_drift", "kick_drift_kick")}  # fmt: skip
    assert geometry.symplectic(composed["drift_kick_drift"]).finding is NOT_CLAIMED
    assert geometry.symplectic(composed["kick_drift_kick"]).finding is HOLDS
    assert geometry.change(composed["drift_kick_drift"], 10) > 1e-4


def test_with_holonomic_constraints_the_step_is_symplectic_on_the_manifold():
    claim = geometry.symplectic(of_gallery("spherical_pendulum", steps=20))
    assert claim.finding is HOLDS
    assert claim.measured < 1e-9
    pulled = da.Holonomic(lambda q: q[1] - 0.2 * jnp.sin(q[0]), reactions=lambda q: jnp.array([1.0, 2.0]))
    servo = subject(da.System(lambda q, v: 0.5 * v @ v - q[1], pulled), [0.0, 0.0], [1.0, 0.2], steps=20)
    assert geometry.symplectic(servo).finding is NOT_CLAIMED
    assert geometry.change(servo, 5) > 1e-3


def test_v_of_a_lyapunov_constraint_falls_where_the_step_resolves_it_and_not_at_twice_the_step():
    """The wheel pendulum of Borda, Fernández, Grillo at the paper's h = 0.1: V rises in some steps, at h = 0.05 in none."""
    assert next(balance.lyapunov(of_gallery("inertia_wheel_pendulum", h=0.05, steps=400))).finding is HOLDS
    claim = next(balance.lyapunov(of_gallery("inertia_wheel_pendulum", h=0.1, steps=200)))
    assert claim.finding is FAILS
    assert claim.measured > 0.1


def test_a_start_of_first_order_costs_the_order_of_the_run():
    entry = ENTRIES["curvature_particle"]
    given = {"h": 0.1, "steps": 8, "scheme": da.Scheme("nodes")}
    first = subject(entry.system, entry.q0, entry.v0, start=da.Start(starter="first_order"), **given)
    found = {c.claim: c for c in convergence.orders(first)}
    assert found["q of order 2"].finding is FAILS
    assert found["q of order 2"].measured == pytest.approx(1.0, abs=0.2)
    second = {c.claim: c for c in convergence.orders(subject(entry.system, entry.q0, entry.v0, **given))}
    assert second["q of order 2"].finding is HOLDS


def test_reversal_sees_what_the_motion_forgets(particle):
    assert geometry.reversible(particle).measured < 1e-12
    assert geometry.self_adjoint(particle).measured < 1e-12
    spinning = da.System(lambda q, v: 0.5 * v @ v + q[0] * v[1] - q @ q)  # a magnetic field
    turning = subject(spinning, [1.0, 0.0], [0.0, 0.5], steps=60)
    assert geometry.self_adjoint(turning).finding is HOLDS
    claim = geometry.reversible(turning)
    assert claim.finding is NOT_CLAIMED
    assert "a(q, -v) differs" in claim.reason
    sliding = da.Nonholonomic(lambda q, v: v[1] - 0.3 - q[0] * v[0])  # affine
    claim = geometry.reversible(subject(da.System(lambda q, v: 0.5 * v @ v, sliding), [0.0, 0.0], [1.0, 0.3], steps=20))
    assert claim.finding is NOT_CLAIMED
    assert "-v violates" in claim.reason


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_findings_do_not_depend_on_the_units(unit):
    system = da.System(lambda q, v: 0.5 * v @ v + unit**2 * jnp.cos(q[0] / unit), parameters=None)
    seen = subject(system, [unit], [0.0], steps=100)
    claims = [geometry.motion(seen), balance.energy_drift(seen), geometry.symplectic(seen), geometry.reversible(seen)]
    assert [c.finding for c in claims] == [HOLDS] * 4
    assert claims[2].measured < 1e-8


def test_what_is_wrong_with_the_arguments_is_said():
    system, q, v = ENTRIES["pendulum"].system, [1.0], [0.0]
    with pytest.raises(TypeError, match="system: found"):
        da.verdict(lambda q: q, None, q, v, h=0.1)
    with pytest.raises(ValueError, match="h: found"):
        da.verdict(system, None, q, v, h=math.nan)
    with pytest.raises(ValueError, match="steps: found 3"):
        da.verdict(system, None, q, v, h=0.1, steps=3)
    with pytest.raises(TypeError, match="symmetries"):
        da.verdict(system, None, q, v, h=0.1, symmetries={"x": 3})


def test_one_step_has_the_declared_order_and_a_scheme_that_declares_more_is_seen(particle, monkeypatch):
    """(1, 0) of β = 0, Jiménez and Scheurle's integrator; told to be (2, 0) it is called broken, and λ is not."""
    first = dataclasses.replace(particle, scheme=da.Scheme.jimenez_scheurle(0.0))
    of_state, of_multipliers = convergence.one_step(first)
    assert (of_state.claim, of_state.finding) == ("one step in (q, v) of order 1", HOLDS)
    assert (of_multipliers.claim, of_multipliers.finding) == ("one step in λ of order 0", HOLDS)
    told = dataclasses.replace(first.scheme.claims(first.system), consistency=(2, 0))
    monkeypatch.setattr(da.Scheme, "claims", lambda *_: told)
    of_state, of_multipliers = convergence.one_step(first)
    assert (of_state.finding, of_multipliers.finding) == (FAILS, HOLDS)
    np.testing.assert_allclose(of_state.measured, 1.0, rtol=0, atol=0.1)
    free = subject(da.System(lambda q, v: 0.5 * v @ v), [0.0], [1.0], steps=8)
    monkeypatch.undo()
    assert list(convergence.one_step(free)) == []  # it is about constraints on velocities


@pytest.mark.parametrize("name", ["nonholonomic_particle", "curvature_particle", "spherical_pendulum"])
def test_the_flow_changes_omega_by_what_its_reactions_make_of_it(name, monkeypatch):
    """Theorem 2.4 by differences of motions, beside one integration of variations; reactions of the wrong sign are seen."""
    run = of_gallery(name, steps=20)
    claim = geometry.flow_evolution(run, geometry.motion(run))
    assert claim.finding is HOLDS
    assert claim.measured < 1e-9
    if name == "nonholonomic_particle":
        exact = da.measure.flow_symplectic_defect(run.system, run.start.q0, run.start.v0, geometry.SPAN * run.start.h)
        assert float(exact.relative) < 1e-9
    phases = geometry._phases
    turned = lambda system, q, *rest: phases(system, q, *rest).at[-len(q) :].multiply(-1.0)  # noqa: E731
    monkeypatch.setattr(geometry, "_phases", turned)
    wrong = geometry.flow_evolution(run, geometry.motion(run))
    assert wrong.finding is (HOLDS if name == "spherical_pendulum" else FAILS)  # where the reactions are ∂φ/∂q, dν = 0
    none = geometry.flow_evolution(run, geometry.MOTION.at_least(0.0, geometry.RANK, "singular"))
    assert none.finding is NOT_CLAIMED


@pytest.mark.parametrize(
    ("scheme", "order"), [(da.Scheme(), 2), (da.Scheme.jimenez_scheurle(0.0), 1), (da.Scheme(order=6), 6)]
)
def test_positions_leave_their_leaf_by_the_order_of_the_scheme(scheme, order, monkeypatch):
    """A bead on y = sin x: y - sin x of the run itself, against what the claim reads off the forms."""
    bead = da.System(lambda q, v: 0.5 * v @ v - q[1], da.Nonholonomic(lambda q, v: v[1] - jnp.cos(q[0]) * v[0]))
    (claim,) = convergence.leaf(subject(bead, [0.0, 0.0], [1.2, 1.2], scheme=scheme, steps=20))
    assert claim.claim.endswith(f"k = {order}")
    assert claim.finding is HOLDS
    assert abs(claim.measured - order) < 0.3
    if order == 6:
        return
    off = []
    for h in (0.02, 0.01):
        q = np.asarray(da.simulate(bead, [0.0, 0.0], [1.2, 1.2], h=h, steps=round(0.8 / h), scheme=scheme).q)
        off.append(abs(q[-1, 1] - np.sin(q[-1, 0])))
    assert abs(np.log2(off[0] / off[1]) - claim.measured) < 0.1
    told = dataclasses.replace(scheme.claims(bead), order=order + 1)
    monkeypatch.setattr(da.Scheme, "claims", lambda *_: told)
    (claim,) = convergence.leaf(subject(bead, [0.0, 0.0], [1.2, 1.2], scheme=scheme, steps=20))
    assert claim.finding is FAILS


def test_no_leaf_is_claimed_where_none_is(particle):
    (claim,) = convergence.leaf(particle)
    assert claim.finding is NOT_CLAIMED
    assert "no combination of the constraints is integrable" in claim.reason
    assert list(convergence.leaf(of_gallery("spherical_pendulum", steps=20))) == []  # it is about constraints on velocities


def test_a_long_step_of_a_bent_map_is_symplectic():
    """Hénon and Heiles at h = 0.5: by automatic differentiation 2e-16, by a wide stencil 2.6e-7. In other units, too."""
    for unit in (1.0, 1e-3, 1e4):
        system = da.System(
            lambda q, v, u=unit: 0.5 * v @ v - 0.5 * q @ q - (q[0] ** 2 * q[1] - q[1] ** 3 / 3) / u,
        )
        found = subject(system, [0.0, 0.1 * unit], [0.5 * unit, 0.0], h=0.5, steps=100)
        assert geometry.symplectic(found).finding is HOLDS
    pushed = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, forces=lambda q, v: -1e-5 * v)
    changed = subject(pushed, [0.0, 0.1], [0.5, 0.0], h=0.5, steps=100)
    assert geometry.change(changed, 0) > 1e-6  # friction is seen by both stencils
