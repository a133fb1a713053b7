"""Pairs and triples of nodes on groups: discrete momenta, theorem 5.3, a step on T*G, the exact pair, roots, symmetries."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.groups import SO2
from dalembert.measure.nodes import nodes_of
from dalembert.systems import momentum

TOP, BODY, BALL = (ENTRIES[name] for name in ("heavy_top", "free_rigid_body", "chaplygin_ball"))
H = 0.05


def nodes_along(entry, steps=30):
    path = da.simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=steps)
    return path, *map(np.asarray, nodes_of(path, entry.system, None)[1:])


def test_discrete_momenta_are_the_derivatives_of_the_discrete_lagrangian():
    """Of h ℓ(m, V), by SciPy's rotations: a turn by θ has |V| = 4 tan(θ/4)/h, and its middle is half the turn."""
    moments, weight = np.array([1.0, 1.0, 0.4]), 1.2

    def rotation(q):
        return Rotation.from_quat(np.roll(q, -1))

    def action(a, b):
        way = (a.inv() * b).as_rotvec()
        angle = np.linalg.norm(way)
        V, middle = 4.0 * np.tan(0.25 * angle) / H * way / angle, a * Rotation.from_rotvec(0.5 * way)
        return H * (0.5 * V @ (moments * V) - weight * middle.as_matrix()[2, 2])

    q0, q1 = np.array([0.8, 0.6, 0.0, 0.0]), Rotation.from_rotvec([0.2, 0.1, -0.3]).as_quat()
    q1 = np.roll((rotation(q0) * Rotation.from_quat(q1)).as_quat(), 1)
    found = da.measure.legendre(TOP.system, q0, -q1, h=H)  # -q1 is the same rotation
    e = 1e-5
    for i in range(3):
        turn = [Rotation.from_rotvec(s * e * np.eye(3)[i]) for s in (1, -1)]
        right = [action(rotation(q0), rotation(q1) * x) for x in turn]
        left = [action(rotation(q0) * x, rotation(q1)) for x in turn]
        assert found.plus[i] == pytest.approx((right[0] - right[1]) / (2 * e), abs=1e-8)
        assert found.minus[i] == pytest.approx(-(left[0] - left[1]) / (2 * e), abs=1e-8)


@pytest.mark.parametrize("name", ["heavy_top", "chaplygin_ball"])  # the verdict of the others has the same claim
def test_the_form_changes_by_the_form_of_the_reactions(name):
    """Borda, Fernández, Grillo, Theorem 5.3, and the ranks of Theorem 5.1."""
    entry = ENTRIES[name]
    path, q, t = nodes_along(entry)
    found = da.measure.symplectic_defect(entry.system, q[10], q[11], h=entry.h, t0=t[10])
    assert found.relative < 1e-13
    assert (found.size > 0.1) == bool(entry.system.constraints)
    assert np.max(np.abs(entry.system.space.differences(q[12], np.asarray(found.end)))) < 1e-13
    seen = da.measure.regularity(entry.system, path, every=10)
    assert seen.regular
    assert seen.residual.max() < 1e-12
    stopped = da.measure.balance(entry.system, q[10], q[11], q[11], h=entry.h)
    assert np.linalg.norm(stopped.components) > 1e-3


def test_the_work_of_a_momentum():
    """The ball keeps the momentum about its point of contact, which is no symmetry; that of a tilted top turns."""
    contact = lambda q, p: {"R": q.R[0], "x": jnp.array([0.0, -p["r"]])}  # noqa: E731
    for form in ("drift_kick_drift", "kick_drift_kick"):
        scheme = da.Scheme(form)
        path = da.simulate(BALL.system, BALL.q0, BALL.v0, h=0.02, steps=50, scheme=scheme)
        found = da.measure.momentum_balance(BALL.system, path, lambda q, p: q.R[0] @ jnp.eye(3, 5), scheme=scheme)
        assert np.abs(found.work).max() > 1e-3
        path = da.simulate(TOP.system, TOP.q0, TOP.v0, h=0.02, steps=50, scheme=scheme)
        assert da.measure.momentum_balance(TOP.system, path, lambda q, p: q.R[2], scheme=scheme).defect < 1e-12
        assert da.measure.momentum_balance(TOP.system, path, lambda q, p: q.R[0], scheme=scheme).defect > 1e-3
    found = da.symmetries(BALL.system, BALL.q0, BALL.v0, generators={"contact": contact})[0]
    assert found.conserved
    assert not found.is_symmetry


@pytest.mark.parametrize("form", ["drift_kick_drift", "kick_drift_kick"])
def test_a_step_on_the_cotangent_bundle_is_symplectic(form):
    """ω = δ·π' - δ'·π + ⟨p, δ×δ'⟩ in the axes of the body, by differences of single steps of the top."""
    scheme, space = da.Scheme(form), TOP.system.space
    q, p, e = np.asarray(TOP.q0), np.array([0.2, 0.5, 1.4]), 1e-4

    def step(x):
        after = da.measure.phase_step(TOP.system, np.asarray(space.retract(q, x[:3])), p + x[3:], h=H, scheme=scheme)
        return np.asarray(after.q), np.asarray(after.p)

    end = step(np.zeros(6))

    def slope(x):
        (a, b), (c, d) = step(e * x), step(-e * x)
        ways = space.differences(end[0], a) - space.differences(end[0], c)
        return np.concatenate([ways, b - d]) / (2 * e)

    slopes = np.array([slope(x) for x in np.eye(6)])

    def form_of(rows, p):
        d, pi = rows[:, :3], rows[:, 3:]
        return d @ pi.T - pi @ d.T + np.einsum("k,ijk->ij", p, np.cross(d[:, None], d[None]))

    assert_allclose(form_of(slopes, end[1]), form_of(np.eye(6), p), rtol=0, atol=2e-7)
    assert np.max(np.abs(slopes - np.eye(6))) > 0.02


def test_a_momentum_leads_back_to_its_velocity():
    after = da.measure.phase_step(
        BODY.system, {"R": np.eye(3)}, [0.1, 3.0, 0.9], h=0.02, scheme=da.Scheme("kick_drift_kick")
    )
    path = da.simulate(BODY.system, BODY.q0, BODY.v0, h=0.02, steps=1, scheme=da.Scheme("kick_drift_kick"))
    assert_allclose(after.p, momentum(BODY.system, path.q[-1], path.v[-1]), rtol=0, atol=1e-14)


def test_the_exact_pair():
    truth = da.reference(TOP.system, TOP.q0, TOP.v0, [0.0, 0.1], tolerance=1e-13)
    found = da.measure.exact_discrete(TOP.system, truth.q[0], -truth.q[1], h=0.1)
    assert_allclose(found.v0, truth.v[0], rtol=0, atol=1e-9)
    assert_allclose(found.v1, truth.v[1], rtol=0, atol=1e-9)
    assert_allclose(found.plus, np.array([1.0, 1.0, 0.4]) * truth.v[1], rtol=0, atol=1e-9)


def test_the_root_of_a_step_is_the_step():
    path = da.simulate(BODY.system, BODY.q0, BODY.v0, h=0.02, steps=6)
    found = da.roots(BODY.system, path.q[5], path.v[5], h=0.02, starts=16)
    assert_allclose(found[0].v, path.v[6], rtol=0, atol=1e-14)
    assert_allclose(np.abs(found[0].q @ path.q[6]), 1.0, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match="on groups take drift_kick_drift"):
        da.roots(BODY.system, BODY.q0, BODY.v0, h=0.02, scheme=da.Scheme("nodes"))


FOUND = {
    "heavy_top": {"∂R.3 in space": True, "∂R.3 in the body": True},
    "veselova": {"∂R.3 in space": False, "∂R.1 in space": True, "∂R.2 in space": True},
    "sled": {"∂g.ω in space": False, "∂g.v1 in space": False, "∂g.v2 in space": False},
    "chaplygin_ball": {
        "∂R.3 in space - x.2 ∂x.1 + x.1 ∂x.2": False, "∂x.1": False, "∂x.2": False, "∂R.1 in space - 7/10 ∂x.2": True,
        "∂R.2 in space + 7/10 ∂x.1": True, "∂R.3 in space": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_left_and_right_symmetries_are_found(name):
    """Those of space and of the body, and what goes with shifts; True where the momentum is kept."""
    entry = ENTRIES[name]
    found = da.symmetries(entry.system, entry.q0, entry.v0)
    assert {one.name: one.conserved for one in found} == FOUND[name]
    assert found.gap > 1e8
    if name == "heavy_top":
        path = da.simulate(entry.system, entry.q0, entry.v0, h=0.02, steps=500)
        for generator in found.generators.values():
            assert da.measure.momentum(entry.system, path, generator).range < 1e-13


def test_turns_of_the_plane_and_of_the_body_are_one_symmetry():
    """On SO(2) their difference is the field 0."""
    disc = da.System(lambda q, v: 0.5 * v.a @ v.a + v.b @ v.b * (2.0 + v.b @ v.b), coordinates={"a": SO2, "b": SO2})
    found = da.symmetries(disc, {"a": np.eye(2), "b": np.eye(2)}, {"a": [0.3], "b": [-1.0]})
    assert sorted(one.name for one in found) == ["∂a", "∂b"]


def test_what_is_refused_says_what_is_right():
    system = TOP.system
    step = {"h": H, "step": lambda a, b: b}
    for call, message in (
        (lambda: da.symmetries(system, TOP.q0, TOP.v0, generators={"turn": (np.eye(3), np.zeros(3))}), "of q that returns"),
        (lambda: da.measure.phase_step(system, TOP.q0, [1.0, 0.0], h=H), "p: "),
        (lambda: da.measure.legendre(system, TOP.q0, [1.0, 0.0, 0.0], h=H), "q1: found shape"),
        (lambda: da.measure.legendre(system, TOP.q0, {"R": 1.1 * np.eye(3)}, h=H), "no rotation"),
        (lambda: da.measure.symplectic_defect(system, TOP.q0, TOP.q0, **step), "step= is there for systems on Rⁿ"),
        (lambda: da.measure.flow_symplectic_defect(system, TOP.q0, TOP.v0, 1.0), "is there for systems on Rⁿ"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()
