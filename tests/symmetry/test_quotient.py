"""The flow modulo a group: equal to the full one to rounding at every node, for every order, of systems and of nodes."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import ENTRIES, curvature_particle
from dalembert.symmetry.orbits import act
from dalembert.systems import with_parameters


def shift(n, *at):
    return np.zeros((n, n)), np.eye(n)[list(at)].sum(axis=0)


def turn(n, i=0, j=1, *along):
    matrix = np.zeros((n, n))
    matrix[i, j], matrix[j, i] = -1.0, 1.0
    return matrix, np.eye(n)[list(along)].sum(axis=0) if along else np.zeros(n)


def cart(q, v):
    return 0.65 * v[0] ** 2 + 0.15 * v[1] ** 2 + 0.3 * v[0] * v[1] * jnp.cos(q[1]) - 3.0 * jnp.cos(q[1])


def steer(q, v, a, p):
    return a[2] + 0.5 * v[2] - 0.2 * (v[0] * jnp.cos(q[2]) + v[1] * jnp.sin(q[2]))


BEND, SLEIGH = ENTRIES["curvature_particle"], ENTRIES["chaplygin_sleigh"]
WHEEL = ENTRIES["inertia_wheel_pendulum"]
RIGID = [shift(2, 0), shift(2, 1), turn(2)]
ON_THE_PLANE = [shift(3, 0), shift(3, 1), turn(3, 0, 1, 2)]
SERVO = da.System(
    cart,
    da.SecondOrder(lambda q, v, a: a[1] + 1.2 * v[1] + 4.0 * jnp.sin(q[1]), reactions=lambda q, v, a: jnp.array([1.0, 0.0])),
    coordinates=("x", "θ"),
)
SPUN = with_parameters(WHEEL.system, WHEEL.system.parameters | {"chi": jnp.zeros(())})
STEERED = da.System(
    SLEIGH.system.lagrangian,
    [*SLEIGH.system.constraints, da.SecondOrder(steer, reactions=lambda q, v, a, p: jnp.array([0.0, 0.0, 1.0]))],
    coordinates=SLEIGH.system.coordinates,
    parameters=SLEIGH.system.parameters,
)
BEAD = da.System(
    lambda q, v, t: 0.5 * v @ v - 9.8 * q[2] - (0.1 + 0.05 * jnp.sin(t)) * (q[0] ** 2 + q[1] ** 2),
    [
        da.Holonomic(lambda q, t: q @ q - 1.0),
        da.SecondOrder(lambda q, v, a, t: a[2] + 0.3 * v[2] + q[2] + 0.5, reactions=lambda q, v, a, t: jnp.eye(3)[2]),
    ],
    time_dependent=True,
)
CASES = {
    "curvature particle by SE(2)": (BEND.system, BEND.q0, BEND.v0, RIGID, 1),
    "servo by a translation": (SERVO, [0.2, 0.5], [0.1, 0.3], [shift(2, 0)], 3),
    "wheel pendulum by its rotation": (SPUN, WHEEL.q0, WHEEL.v0, [shift(2, 1)], 3),
    "blade and steering by SE(2)": (STEERED, SLEIGH.q0, SLEIGH.v0, ON_THE_PLANE, 3),
    "bead by a rotation": (BEAD, [0.6, 0.0, -0.8], [0.0, 0.7, 0.0], [turn(3)], 5),
}


@functools.cache
def reduced(case):
    system, q0, v0, generators, _ = CASES[case]
    return da.symmetry.quotient(system, q0, v0, generators=generators)


ORDERS = [("curvature particle by SE(2)", 4), ("wheel pendulum by its rotation", 6)]


@pytest.mark.parametrize(("case", "order"), [*((case, order) for case in CASES for order in (2, 8)), *ORDERS])
def test_the_reduced_motion_is_the_full_one_at_every_node(case, order):
    (system, q0, v0, _, left), small = CASES[case], reduced(case)
    assert len(small.x0) == len(small.coordinates) == left
    scheme = da.Scheme(order=order)
    motion = small.simulate(h=0.05, steps=100, scheme=scheme)
    full = da.simulate(system, q0, v0, h=0.05, steps=100, scheme=scheme)
    back = small.reconstruct(motion)
    for found, expected in ((back.q, full.q), (back.v, full.v)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1.0, np.max(np.abs(expected))))
    np.testing.assert_array_equal(back.t, full.t)
    x, g = small.split(full.q[1], full.v[1])
    np.testing.assert_allclose(x, motion.x[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(g, motion.moves[0], rtol=0, atol=1e-12)


def continuous(small, until):
    """(x, z) at t = until, by ẋ = X(x), ġ = g η(x)."""
    d, shape = len(small.x0), (len(small.slice.centre[0]) + 1,) * 2

    def rates(t, y):
        found = small.rates(y[:d], t)
        return np.concatenate(
            [found.x, (y[d:].reshape(shape) @ np.einsum("a,aij->ij", found.group, small.slice.fields)).ravel()]
        )

    begin = np.concatenate([small.x0, np.eye(shape[0]).ravel()])
    y = solve_ivp(rates, (0.0, until), begin, method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    return y[:d], np.asarray(act(jnp.asarray(y[d:].reshape(shape)), small.slice.section(y[:d])))


@pytest.mark.parametrize("case", CASES)
def test_the_reduced_equations_are_those_of_the_continuous_flow(case):
    (system, q0, v0, *_), small = CASES[case], reduced(case)
    _, z = continuous(small, 0.5)
    full = da.reference(system, q0, v0, np.linspace(0.0, 0.5, 3), tolerance=1e-13)
    np.testing.assert_allclose(z[0], full.q[-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(z[1], full.v[-1], rtol=1e-12, atol=2e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_momentum_equation(case):
    """d/dt p·ξ along the reduced flow, by differences of the reduced motion, is work of reactions and the turning frame.

    The program is that of the runs of order 8 above, which have as many steps.
    """
    small, h = reduced(case), 1e-3
    motion = small.simulate(h=h, steps=100, scheme=da.Scheme(order=8))
    momentum = motion.momentum[:9]
    weights = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
    found = small.rates(motion.x[4], motion.t[4]).momentum
    size = np.max(np.abs(momentum)) / h
    np.testing.assert_allclose(weights @ momentum / h, found, rtol=1e-9, atol=1e-13 * size)


def test_the_particle_leaves_its_speed_and_turns_by_the_angle_of_the_polygon():
    small = da.symmetry.quotient(BEND.system, BEND.q0, BEND.v0, generators=RIGID)
    motion = small.simulate(h=0.1, steps=20)
    side = 0.1 * np.sqrt(2.0)
    sine = side / (1.0 + np.sqrt(1.0 + side**2))  # 2 sin(α/2) = k h|v| cos²(α/2)
    angle = 2.0 * np.arcsin(sine)
    expected = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    np.testing.assert_allclose(motion.moves[:, :2, :2], np.broadcast_to(expected, (20, 2, 2)), rtol=0, atol=1e-14)
    np.testing.assert_allclose(motion.x, 1.0, rtol=0, atol=1e-14)
    found = small.rates(small.x0)
    np.testing.assert_allclose(found.group, [1.0, 1.0, np.sqrt(2.0)], rtol=0, atol=1e-14)  # ẋ, ẏ and k|v|
    np.testing.assert_allclose(found.work, [-np.sqrt(2.0), np.sqrt(2.0), 0.0], rtol=0, atol=1e-14)


def curved(h, rubbed=0.0):
    def kinematic(q0, q1, q2):
        v, a = (q2 - q0) / (2 * h), (q2 - 2 * q1 + q0) / h**2
        return v[0] * a[1] - v[1] * a[0] - (v @ v) ** 1.5

    along = lambda q0, q1, q2: jnp.array([q2[1] - q0[1], q0[0] - q2[0]]) / (2 * h)  # noqa: E731
    impulses = (lambda q0, q1: (-0.2 * rubbed * (q1 - q0), -0.3 * rubbed * (q1 - q0))) if rubbed else None
    return da.DiscreteSystem(lambda q0, q1: 0.5 * (q1 - q0) @ (q1 - q0) / h, kinematic, reactions=along, forces=impulses)


def driven(h):
    """The servo as nodes, and a lower-order constraint between its third coordinate and the others."""
    middle = lambda q0, q1: (0.5 * (q0 + q1), (q1 - q0) / h)  # noqa: E731

    def action(q0, q1):
        q, v = middle(q0, q1)
        return h * (cart(q, v) + 0.2 * v[2] ** 2)

    def kinematic(q0, q1, q2):
        v, a = (q2 - q0) / (2 * h), (q2 - 2 * q1 + q0) / h**2
        q, w = middle(q1, q2)
        return jnp.array([a[1] + 1.2 * v[1] + 4.0 * jnp.sin(q1[1]), w[2] - jnp.cos(q[1]) * w[0]])

    rows = lambda q0, q1, q2: jnp.array([[1.0, 0.0, 0.0], [-jnp.cos(q1[1]), 0.0, 1.0]])  # noqa: E731
    return da.DiscreteSystem(action, kinematic, reactions=rows)


NODES = {
    "curvature particle by SE(2)": (curved(0.1), [[0.0, 0.0], [0.1, 0.1]], RIGID, 0.1),
    "with friction": (curved(0.1, 1.0), [[0.0, 0.0], [0.1, 0.1]], RIGID, 0.1),
    "servo and a coupling by translations": (
        driven(0.05), [[0.2, 0.5, 0.0], [0.205, 0.515, 0.004]], [shift(3, 0), shift(3, 2)], 0.05,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NODES)
def test_nodes_of_a_discrete_system(case):
    system, nodes, generators, h = NODES[case]
    small = da.symmetry.quotient(system, nodes=nodes, generators=generators)
    motion = small.simulate(h=h, steps=99)
    full = da.simulate(system, start=da.Start(nodes=nodes), h=h, steps=100)
    back = small.reconstruct(motion)
    np.testing.assert_allclose(back.q, full.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(back.v, full.v, rtol=0, atol=2e-12)
    np.testing.assert_allclose(back.t, full.t, rtol=0, atol=1e-14)
    x, _ = small.split(full.q[7], full.q[8:9])
    np.testing.assert_allclose(x, motion.x[7], rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", NODES)
def test_the_discrete_momentum_equation(case):
    """J on the slice, carried by g, is the momentum of the full run, which changes by the work of the reactions."""
    system, nodes, generators, h = NODES[case]
    small = da.symmetry.quotient(system, nodes=nodes, generators=generators)
    motion = small.simulate(h=h, steps=20)
    full = da.simulate(system, start=da.Start(nodes=nodes), h=h, steps=21)
    fields, g = small.slice.fields, np.eye(len(nodes[0]) + 1)
    basis = fields.reshape(len(fields), -1).T
    carried = []
    for k in range(21):
        g = g @ (motion.moves[k - 1] if k else np.eye(len(g)))
        back = np.stack([(np.linalg.inv(g) @ one @ g).ravel() for one in fields], axis=1)
        carried.append(np.linalg.lstsq(basis, back, rcond=None)[0].T @ motion.momentum[k])
    for a, one in enumerate(small.generators):
        balance = da.measure.momentum_balance(system, full, one.generator)
        np.testing.assert_allclose(np.array(carried)[:, a], balance.momentum, rtol=0, atol=1e-12)
        assert balance.defect < 1e-11
    assert np.max(np.abs(np.diff(carried, axis=0))) > 1e-3  # no constants


def test_what_is_no_symmetry_is_refused_with_what_fails():
    start = [0.2, 0.5], [0.1, 0.3]
    with pytest.raises(ValueError, match=r"-θ ∂x \+ x ∂θ.* L changes by 1 .*constraints 1, reactions 1"):
        da.symmetry.quotient(SERVO, *start, generators=[turn(2)])
    with pytest.raises(ValueError, match=r"∂ψ: .*changed: constraints 1"):
        da.symmetry.quotient(WHEEL.system, WHEEL.q0, WHEEL.v0, generators=[shift(2, 1)])
    side = da.System(
        lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: a[0], reactions=lambda q, v, a: jnp.array([1.0, q[1]]))
    )
    with pytest.raises(ValueError, match=r"∂q1: .*changed: reactions 1"):
        da.symmetry.quotient(side, [0.1, 0.2], [0.3, 0.4], generators=[shift(2, 1)])
    with pytest.raises(ValueError, match=r"1 of the bracket of ∂y and -y ∂x \+ x ∂y is no combination"):
        da.symmetry.quotient(BEND.system, BEND.q0, BEND.v0, generators=RIGID[1:])


def test_where_the_group_does_not_act_freely():
    free = da.System(lambda q, v: 0.5 * v @ v)
    with pytest.raises(da.RankDeficientError, match=r"singular values \[0\.\]; .*acts freely"):
        da.symmetry.quotient(free, [0.0, 0.0], [0.0, 0.0], generators=[turn(2)])
    da.symmetry.quotient(free, [0.0, 0.0], [0.0, 1.0], generators=[turn(2)])  # on states, where `routh` has no slice
    with pytest.raises(da.RankDeficientError, match="singular values"):
        da.symmetry.quotient(free, [1.0, 0.0], [0.0, 0.0], generators=RIGID)
    with pytest.raises(da.RankDeficientError, match=r"no state follows x = .* at t = 0"):
        da.symmetry.quotient(BEND.system, BEND.q0, BEND.v0, generators=RIGID).simulate(h=50.0, steps=3)


def test_a_motion_that_leaves_the_slice_is_continued_from_there():
    """Past the centre, close by, a slice q1 = 0 turns by half a turn within a step; another one does not."""
    spring = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    start = [1.0, 0.0], [0.0, 1e-6]
    run = {"h": 0.1, "steps": 40}
    with pytest.raises(da.RankDeficientError, match=r"no state follows .* does not cross the slice"):
        da.symmetry.quotient(spring, *start, generators=[turn(2)]).simulate(**run)
    full = da.simulate(spring, *start, **run)
    small = da.symmetry.quotient(spring, full.q[15], full.v[15], generators=[turn(2)], t0=1.5)
    back = small.reconstruct(small.simulate(h=0.1, steps=10))
    np.testing.assert_allclose(back.q, full.q[15:26], rtol=0, atol=1e-12)


def test_maps_that_do_not_commute_with_the_group():
    class Bent(da.PairMap):
        weight: float = 0.5

        def __call__(self, q0, d, h):
            return q0 + 0.5 * d + 0.1 * jnp.sin(q0) * (d @ d), d / h

    spring = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    small = da.symmetry.quotient(spring, [1.0, 0.5], [0.1, 0.3], generators=[turn(2)])
    with pytest.raises(ValueError, match=r"-q1 ∂q0 \+ q0 ∂q1 has moved misses the moved step by \S+ of it"):
        small.simulate(h=0.05, steps=5, scheme=da.Scheme(action=Bent()))
    with pytest.raises(ValueError, match="form 'nodes'"):
        small.simulate(h=0.05, steps=5, scheme=da.Scheme("nodes"))


@pytest.mark.parametrize("size", [1e-14, 1e9])
def test_units_of_a_generator_do_not_matter(size):
    small = da.symmetry.quotient(BEND.system, BEND.q0, BEND.v0, generators=[*RIGID[:2], (size * RIGID[2][0], RIGID[2][1])])
    full = da.simulate(BEND.system, BEND.q0, BEND.v0, h=0.1, steps=20)
    np.testing.assert_allclose(small.reconstruct(small.simulate(h=0.1, steps=20)).q, full.q, rtol=0, atol=1e-13)


def test_bad_input():
    start = [0.2, 0.5], [0.1, 0.3]
    with pytest.raises(TypeError, match="a System starts from q0 and v0"):
        da.symmetry.quotient(SERVO, nodes=[[0.0, 0.0]], generators=[shift(2, 0)])
    with pytest.raises(TypeError, match="a DiscreteSystem starts from its first nodes"):
        da.symmetry.quotient(curved(0.1), *start, generators=RIGID)
    with pytest.raises(ValueError, match="first nodes of the system"):
        da.symmetry.quotient(curved(0.1), nodes=[[0.0, 0.0]], generators=RIGID)
    with pytest.raises(TypeError, match="generators"):
        da.symmetry.quotient(SERVO, *start, generators=[])
    with pytest.raises(ValueError, match="is a function"):
        da.symmetry.quotient(SERVO, *start, generators=[lambda q: q])
    with pytest.raises(TypeError, match="give a System or a DiscreteSystem"):
        da.symmetry.quotient(da.VariationalProblem(lambda q, v: 0.5 * v @ v), *start, generators=[shift(2, 0)])
    with pytest.raises(TypeError, match="give what simulate of this quotient returned"):
        da.symmetry.quotient(SERVO, *start, generators=[shift(2, 0)]).reconstruct(da.simulate(SERVO, *start, h=0.1, steps=2))
    with pytest.raises(ValueError, match="no continuous equations"):
        da.symmetry.quotient(curved(0.1), nodes=[[0.0, 0.0], [0.1, 0.1]], generators=RIGID).rates([0.1])
    found = da.symmetries(SERVO, *start)
    assert da.symmetry.quotient(SERVO, *start, generators=found).coordinates == ("θ", "ẋ", "θ̇")


def test_the_curvature_that_changes_has_no_group():
    bend = curvature_particle.curvature_particle(lambda q, p: 1.0 + 0.3 * q[0])
    with pytest.raises(ValueError, match=r"∂x: .*changed: constraints"):
        da.symmetry.quotient(bend, BEND.q0, BEND.v0, generators=[shift(2, 0)])
    small = da.symmetry.quotient(bend, BEND.q0, BEND.v0, generators=[shift(2, 1)])
    assert small.coordinates == ("x", "ẋ", "ẏ")
