"""DiscreteSystem against the same equations written for a System, and against the equations themselves at every node."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.discretize import Reading
from dalembert.gallery import ENTRIES
from dalembert.options import PLACES, group_options

H, STEPS = 0.05, 40
CURVATURE = ENTRIES["curvature_particle"].system
PARTICLE = ENTRIES["nonholonomic_particle"]
SPHERE = ENTRIES["spherical_pendulum"]


def discrete_curvature():
    """Borda, Fernández, Grillo, eqs. (6), (7): [6] is the central difference of the curvature; D_V = span(q₂ - q₀)."""

    def lagrangian(q0, q1, p):
        return 0.5 * p["m"] * (q1 - q0) @ (q1 - q0) / p["h"]

    def kinematic(q0, q1, q2, p):
        v, a = (q2 - q0) / (2 * p["h"]), (q2 - 2 * q1 + q0) / p["h"] ** 2
        return (v[0] * a[1] - v[1] * a[0]) / (v @ v) ** 1.5 - p["k"]

    def virtual(q0, q1, q2, p):
        return (q2 - q0) / (2 * p["h"])

    return da.DiscreteSystem(lagrangian, kinematic, virtual=virtual, parameters={"m": 1.0, "k": 1.0, "h": H})


def test_the_papers_curvature_particle_written_on_nodes():
    path = da.simulate(
        CURVATURE,
        [0.0, 0.0],
        [1.0, 1.0],
        h=H,
        steps=STEPS,
        scheme=da.Scheme.borda_fernandez_grillo(),
        start=da.Start(starter="first_order"),
    )
    direct = da.simulate(discrete_curvature(), start=da.Start(nodes=[[0.0, 0.0], [H, H]]), h=H, steps=STEPS)
    np.testing.assert_allclose(direct.q, path.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(direct.constraint_forces, path.constraint_forces, rtol=0, atol=1e-9)
    np.testing.assert_allclose(direct.multipliers, path.multipliers, rtol=0, atol=1e-9)
    np.testing.assert_allclose(direct.t_multipliers, path.t_multipliers)
    np.testing.assert_allclose(direct.t_velocity, path.t_velocity)
    # [7]: all chords have one length; the first is h√2
    np.testing.assert_allclose(np.linalg.norm(np.diff(direct.q, axis=0), axis=1), np.sqrt(2) * H, rtol=1e-12)


def test_impulses_are_those_of_both_ends_of_both_intervals():
    """D₂L_d(q₀, q₁) + f⁺(q₀, q₁) + D₁L_d(q₁, q₂) + f⁻(q₁, q₂) = 0 with the slopes by hand, each at its interval's time."""
    before = lambda a, b, t: np.array([-0.3 * (1 + t) * a[0] * b[1] ** 2, 0.2 * np.cos(a[1]) - t * b[0]])  # noqa: E731
    after = lambda a, b, t: np.array([t * b[1] ** 2, 0.4 * a[0] * b[0] - 0.1])  # noqa: E731

    def forces(a, b, t):
        first = jnp.stack([-0.3 * (1 + t) * a[0] * b[1] ** 2, 0.2 * jnp.cos(a[1]) - t * b[0]])
        return H * first, H * jnp.stack([t * b[1] ** 2, 0.4 * a[0] * b[0] - 0.1])

    action = lambda a, b, t: 0.5 * (1 + 0.3 * t) * (b - a) @ (b - a) / H - 0.2 * H * (a @ b) ** 2  # noqa: E731
    system = da.DiscreteSystem(action, forces=forces, time_dependent=True)
    path = da.simulate(system, start=da.Start(nodes=[[0.8, 0.3], [0.82, 0.36]]), h=H, steps=STEPS, t0=0.4)
    q, t = np.asarray(path.q), 0.4 + H * np.arange(STEPS + 1)
    for i in range(1, STEPS):
        a, b, c, s = q[i - 1], q[i], q[i + 1], t[i]
        left = (1 + 0.3 * (s - H)) * (b - a) / H - 0.4 * H * (a @ b) * a
        right = -(1 + 0.3 * s) * (c - b) / H - 0.4 * H * (b @ c) * c
        pushed = H * (after(a, b, s - H) + before(b, c, s))
        np.testing.assert_allclose(left + right + pushed, 0.0, atol=1e-12)
        assert np.abs(pushed).max() > 1e-3


def test_replace_and_the_step_that_scales_multipliers():
    system, nodes = discrete_curvature(), [[0.0, 0.0], [H, H]]
    with_h = da.simulate(system, start=da.Start(nodes=nodes), h=H, steps=5)
    without = da.simulate(system, start=da.Start(nodes=nodes), steps=5)
    np.testing.assert_allclose(without.q, with_h.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(without.multipliers, H * with_h.multipliers, rtol=1e-9)
    np.testing.assert_allclose(without.t, np.arange(6.0))
    heavy = da.simulate(system.replace(m=3.0), start=da.Start(nodes=nodes), h=H, steps=5)
    np.testing.assert_allclose(heavy.q, with_h.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(heavy.multipliers, 3 * with_h.multipliers, rtol=1e-9)


def test_nonholonomic_embedding():
    """Remark 3.4 with D_d the mid-point distribution, against the System on nodes."""
    path = da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=H, steps=STEPS, scheme=da.Scheme("nodes"))

    def lagrangian(q0, q1):
        return 0.5 * (q1 - q0) @ (q1 - q0) / H

    def constraint(q0, q1):
        return ((q1[2] - q0[2]) - 0.5 * (q0[1] + q1[1]) * (q1[0] - q0[0])) / H

    system = da.DiscreteSystem.nonholonomic(lagrangian, constraint, lambda q: jnp.array([-q[1], 0.0, 1.0]))
    direct = da.simulate(system, start=da.Start(nodes=path.q[:2]), h=H, steps=STEPS)
    np.testing.assert_allclose(direct.q, path.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(direct.multipliers, path.multipliers, rtol=0, atol=1e-9)
    pairs = np.array([constraint(a, b) for a, b in zip(np.asarray(direct.q), np.asarray(direct.q)[1:], strict=False)])
    np.testing.assert_allclose(pairs, 0.0, atol=1e-12)
    with pytest.raises(da.InconsistentDataError, match="nodes: the first two must lie in D_d"):
        da.simulate(system, start=da.Start(nodes=[[0.0, 1.0, 0.0], [0.1, 1.0, 0.0]]), h=H, steps=3)


def test_holonomic_embedding():
    """Remarks 3.4, 5.2 for the sphere, against the System on nodes: SHAKE."""
    path = da.simulate(SPHERE.system, SPHERE.q0, SPHERE.v0, h=H, steps=STEPS, scheme=da.Scheme("nodes"))

    def lagrangian(q0, q1):
        return 0.5 * (q1 - q0) @ (q1 - q0) / H - H * 0.5 * (q0[2] + q1[2])

    system = da.DiscreteSystem.holonomic(lagrangian, lambda q: (q @ q - 1.0,))
    direct = da.simulate(system, start=da.Start(nodes=path.q[:2]), h=H, steps=STEPS)
    np.testing.assert_allclose(direct.q, path.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(direct.multipliers, path.multipliers, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.sum(np.asarray(direct.q) ** 2, axis=1), 1.0, rtol=0, atol=1e-12)


# Remark 3.6, order k. The equations at the nodes are evaluated here by hand: L_d = ½|q₁-q₀|² - g(q₀_y + q₁_y)/2.

G = 0.02


def lagrangian(q0, q1):
    return 0.5 * (q1 - q0) @ (q1 - q0) - 0.5 * G * (q0[1] + q1[1])


def euler_lagrange_at_inner_nodes(q):
    """D₁L_d(q_i, q_{i+1}) + D₂L_d(q_{i-1}, q_i) at i = 1, …, N-1."""
    return -(q[2:] - 2 * q[1:-1] + q[:-2]) - np.array([0.0, G])


def row(*window):
    """A reaction that depends on the whole window, so that a wrong window shows."""
    return jnp.array([1.0 + sum((i + 1) * 0.1 * x[1] for i, x in enumerate(window)), 0.3 * window[0][0] + 0.5])


def third(q0, q1, q2, q3):
    """A third difference: the x component has a prescribed jerk."""
    return q3[0] - 3 * q2[0] + 3 * q1[0] - q0[0] - 0.001 * jnp.sin(q0[1])


def slope(q0, q1):
    """Order 1: the x component follows the y component."""
    return q1[0] - q0[0] - 0.1 * jnp.cos(q0[1])


@pytest.mark.parametrize(("kinematic", "order", "factor"), [
    (slope, 1, 1), (slope, 1, 2), (third, 3, 3), (third, 3, 4), (third, 3, 2), (third, 3, 1),
])  # fmt: skip
def test_order_k(kinematic, order, factor):
    """D_K on every window of k+1 nodes, and the force at node i spanned by R on the window whose point `factor` is q_i.

    Over a factor j < k the row reads k - j nodes behind q_{i+1}: all but the last are known when the equation is solved.
    """
    delay = max(0, order - factor)
    needed = max(2 + delay, order, factor)
    given = np.array([[0.0, 0.0], [0.1, 0.1], [0.21, 0.19], [0.3, 0.25]])[:needed]
    system = da.DiscreteSystem(lagrangian, kinematic, reactions=row, order=order, factor=factor)
    last = 12 if not delay else needed  # an unstable recursion: test_a_factor_below_k_is_no_integrator
    path = da.simulate(system, start=da.Start(nodes=given), h=0.5, steps=last)
    q, k = np.asarray(path.q), order
    assert q.shape == (last + 1, 2)
    np.testing.assert_array_equal(q[: len(given)], given)
    solved = range(len(given), last + 1)  # the nodes found by the run
    for i in solved:
        np.testing.assert_allclose(kinematic(*q[i - k : i + 1]), 0.0, atol=1e-12)
    residual = euler_lagrange_at_inner_nodes(q)
    multipliers = dict(
        zip(np.round(np.asarray(path.t_multipliers) / 0.5).astype(int), np.asarray(path.multipliers), strict=True)
    )
    assert sorted(multipliers) == [i - 1 - delay for i in solved]
    for i, multiplier in multipliers.items():
        first = i - (factor - 1)
        force = np.asarray(row(*q[first : first + k + 1])) * multiplier
        np.testing.assert_allclose(residual[i - 1] + 0.5 * force, 0.0, atol=1e-12)
    force = -2 * residual[len(given) - 2 - delay :]
    np.testing.assert_allclose(path.constraint_forces, force[: len(solved)], rtol=0, atol=1e-11)


def curved(q0, q1, q2):
    """(ẋÿ - ẍẏ)/|v|³ = 1 by central differences at q₁."""
    v, a = (q2 - q0) / (2 * H), (q2 - 2 * q1 + q0) / H**2
    return (v[0] * a[1] - v[1] * a[0]) / (v @ v) ** 1.5 - 1.0


def inertia(q0, q1):
    return 0.5 * (q1 - q0) @ (q1 - q0) / H


def across(v):
    return jnp.array([v[1], -v[0]])


def test_a_factor_below_k_that_reads_nothing_later_is_stepped_as_k():
    """D_V over the first of three points, spanned there by q₁ - q₀: the same rows over the second one, a node earlier."""
    forward = lambda q0, q1, q2: across((q1 - q0) / H)  # noqa: E731
    first = da.DiscreteSystem(inertia, curved, reactions=forward, factor=1)
    path = da.simulate(first, start=da.Start(nodes=[[0.0, 0.0], [H, H]]), h=H, steps=20)
    assert first.reading(2) == Reading(0, 2)
    q, times = np.asarray(path.q), np.round(np.asarray(path.t_multipliers) / H).astype(int)
    np.testing.assert_array_equal(times, np.arange(1, 20))
    for i, multiplier in zip(times, np.asarray(path.multipliers)[:, 0], strict=True):
        side = (q[i + 1] - q[i]) / H
        left = -(q[i + 1] - 2 * q[i] + q[i - 1]) / H + H * multiplier * np.array([side[1], -side[0]])
        np.testing.assert_allclose(left, 0.0, atol=1e-12)
        np.testing.assert_allclose(float(curved(*q[i - 1 : i + 2])), 0.0, atol=1e-11)


def test_a_factor_below_k_is_no_integrator():
    """D_V over q₀ by a velocity of order 2 there, (-3q₀ + 4q₁ - q₂)/2h, so that the step is solved through the reactions.

    Steps from the exact circle are right to O(h³), with the right λ = -√2, and the linearized recursion multiplies what is
    off by 1/(2h²) in every step.
    """
    backward = lambda q0, q1, q2: across((-3 * q0 + 4 * q1 - q2) / (2 * H))  # noqa: E731
    system = da.DiscreteSystem(inertia, curved, reactions=backward, factor=1)
    assert system.reading(2) == Reading(1, 3)
    angle = np.sqrt(2) * H * np.arange(4) - np.pi / 4
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    path = da.simulate(system, start=da.Start(nodes=circle[:3]), h=H, steps=3)
    np.testing.assert_allclose(path.q[3], circle[3], rtol=0, atol=2e-4)
    np.testing.assert_allclose(path.multipliers[0, 0], -np.sqrt(2), rtol=2e-3)
    np.testing.assert_allclose(path.t_multipliers, [H])
    options = {"h": H, "steps": 3, "throw": False, "solver": da.Solver(backend="jax")}
    last = lambda x: da.simulate(system, start=da.Start(nodes=x), **options).q[3]  # noqa: E731
    by_nodes = jax.jit(jax.jacfwd(last))(circle[:3])
    companion = np.zeros((6, 6))
    companion[:4, 2:], companion[4:] = np.eye(4), np.asarray(by_nodes).reshape(2, 6)
    assert np.abs(np.linalg.eigvals(companion)).max() == pytest.approx(0.5 / H**2, rel=1e-3)
    with pytest.raises(ValueError, match=r"nodes: found shape \(2, 2\); give the first 3 nodes"):
        da.simulate(system, start=da.Start(nodes=circle[:2]), h=H, steps=3)
    with pytest.raises(ValueError, match="feedback: the reactions of this system depend on later nodes"):
        da.simulate(system, start=da.Start(nodes=circle[:3]), h=H, steps=3, feedback=da.SampledFeedback(lambda q, v: q))


def test_more_than_one_equation_and_free_motion():
    free = da.simulate(da.DiscreteSystem(lagrangian), start=da.Start(nodes=[[0.0, 0.0], [0.1, 0.1]]), steps=10)
    np.testing.assert_allclose(
        free.q[:, 1], 0.1 * np.arange(11) - 0.5 * G * np.arange(11) * (np.arange(11) - 1), rtol=0, atol=1e-13
    )
    assert free.multipliers.shape == (9, 0)
    both = da.DiscreteSystem(lagrangian, lambda a, b, c: c - b - 0.1 * (b - a), reactions=lambda a, b, c: jnp.eye(2))
    path = da.simulate(both, start=da.Start(nodes=[[0.0, 0.0], [1.0, 2.0]]), steps=6)
    np.testing.assert_allclose(path.q[:, 0], (1 - 0.1 ** np.arange(7)) / 0.9, rtol=1e-12)
    np.testing.assert_allclose(path.multipliers, -euler_lagrange_at_inner_nodes(np.asarray(path.q)), rtol=0, atol=1e-12)


NODES = [[0.0, 0.0], [0.1, 0.1]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"factor": 0}, ValueError, "factor: found 0; give a whole number, from 1 to 3"),
        ({"factor": 4}, ValueError, "factor: found 4; give a whole number, from 1 to 3"),
        ({"order": 0}, ValueError, "order: found 0"),
        ({"order": 2.0}, TypeError, "order: found 2.0; give a whole number"),
        ({"kinematic": None}, ValueError, "give both or neither"),
        ({"reactions": None}, ValueError, "give both or neither"),
        ({"virtual": row}, ValueError, "reactions, virtual: found both"),
        ({"lagrangian": None}, TypeError, "lagrangian: found None"),
        ({"initial": 3}, TypeError, "initial: found 3"),
        ({"coordinates": "xy"}, TypeError, "coordinates: found 'xy'"),
    ],
)
def test_bad_data(options, error, message):
    with pytest.raises(error, match=message):
        da.DiscreteSystem(**{"lagrangian": lagrangian, "kinematic": lambda a, b, c: c[0], "reactions": row, **options})


@pytest.mark.parametrize(
    ("changes", "run", "error", "message"),
    [
        ({}, {"nodes": None}, ValueError, "nodes: a DiscreteSystem starts from its first 2 nodes"),
        ({}, {"q0": [0.0, 0.0]}, ValueError, "not from q0 and v0"),
        ({}, {"nodes": NODES + NODES}, ValueError, r"nodes: found shape \(4, 2\); give the first 2 nodes"),
        ({}, {"nodes": [[0.0], [0.0, 1.0]]}, TypeError, "nodes: found list .*, which is not an array"),
        ({}, {"nodes": [[0.0, 0.0], [np.nan, 0.0]]}, ValueError, "nodes: found nan at index 1, 0; every number"),
        ({}, {"scheme": da.Scheme()}, ValueError, "scheme: a DiscreteSystem is discrete already"),
        ({"order": 3, "kinematic": third}, {"nodes": [*NODES, [0.2, 0.2]], "steps": 1}, ValueError, "steps: found 1; the 3"),
        ({"coordinates": ("x",)}, {}, ValueError, "nodes: found n = 2; the system names 1"),
        ({"lagrangian": lambda a, b: a - b}, {}, ValueError, r"lagrangian: returns shape \(2,\)"),
        ({"kinematic": lambda a, b: a[0]}, {}, TypeError, r"kinematic: .*called as f\(q0, q1, q2\)"),
        ({"reactions": lambda *w: jnp.eye(2)}, {}, ValueError, r"reactions: returns shape \(2, 2\); shape \(1, 2\)"),
        ({"parameters": {"k": np.nan}, "lagrangian": lambda a, b, p: lagrangian(a, b), "reactions": lambda a, b, c, p: a,
          "kinematic": lambda a, b, c, p: c[0]}, {}, ValueError, r"parameters\['k'\]: found nan"),
    ],
)  # fmt: skip
def test_bad_runs(changes, run, error, message):
    given = {"lagrangian": lagrangian, "kinematic": lambda a, b, c: c[0], "reactions": row, **changes}
    with pytest.raises(error, match=message):
        da.simulate(da.DiscreteSystem(**given), **group_options({"nodes": NODES, "steps": 3, **run}, PLACES))


def test_equations_that_do_not_determine_the_next_node():
    """D_K that does not read q₂ is singular (Theorem 5.1); the two nodes of the start are kept."""
    system = da.DiscreteSystem(lagrangian, lambda a, b, c: a[0] - 1.0, reactions=row)
    path = da.simulate(system, start=da.Start(nodes=NODES), steps=3, throw=False)
    assert path.outcome is da.Outcome.SINGULAR
    np.testing.assert_array_equal(path.q, NODES)
