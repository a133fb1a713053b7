"""Symmetries found and given: against groups that are known, and against motions that they take to motions."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import dalembert as da
from dalembert.gallery import ENTRIES, knife_edge, rigid_body

XY = ("x", "y")


def central(q, v):
    return 0.5 * v @ v + 1.0 / jnp.hypot(q[0] - 3.0, q[1] + 2.0)


def three_masses(q, v):
    """Two springs in the plane; a third one, cubic, between the ends."""
    points, m = q.reshape(3, 2), jnp.array([1.0, 2.0, 0.5])
    a, b, c = (jnp.linalg.norm(points[i] - points[j]) for i, j in ((0, 1), (1, 2), (0, 2)))
    return 0.5 * m @ jnp.sum(v.reshape(3, 2) ** 2, axis=1) - (a - 1.0) ** 2 - 2.0 * (b - 1.0) ** 2 - c**3


def relativistic(q, v):
    return -jnp.sqrt(1.0 - 0.01 * v @ v) - 0.3 * q[2]


def skate(q, v, p):
    """A knife edge with a heading in thousandths, a light body that is hard to turn, far from the origin."""
    return jnp.sin(1e-3 * q[2]) * v[0] - jnp.cos(1e-3 * q[2]) * v[1]


SKATE = da.System(
    lambda q, v, p: 0.5 * p["m"] * (v[0] ** 2 + v[1] ** 2) + 0.5 * p["J"] * v[2] ** 2, da.Nonholonomic(skate),
    parameters={"m": 1e-6, "J": 3e7}, coordinates=("x", "y", "θ"),
)  # fmt: skip
# The centre of mass moves freely: it turns without the masses turning about it.
ALONE = (
    "(2 b + 1/2 d) ∂x + (-2 a - 1/2 c) ∂y + (y + b + 1/2 d) ∂a + (-x - a - 1/2 c) ∂b + (y + 2 b - 1/2 d) ∂c"
    " + (-x - 2 a + 1/2 c) ∂d"
)
SE2 = ["∂x", "∂y", "-y ∂x + x ∂y + ∂θ"]
DISK, SPHERE, CURVED = (ENTRIES[name] for name in ("vertical_rolling_disk", "spherical_pendulum", "curvature_particle"))
KNOWN = {
    "spherical pendulum": (SPHERE.system, SPHERE.q0, SPHERE.v0, ["-y ∂x + x ∂y"], []),
    "free rigid body": (
        rigid_body.rigid_body().system, [1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.3, 0.1],
        ["-x ∂w + w ∂x - z ∂y + y ∂z", "-y ∂w + z ∂x + w ∂y - x ∂z", "-z ∂w - y ∂x + x ∂y + w ∂z"], [],
    ),
    "knife edge": (knife_edge.knife_edge().system, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5], ["∂theta"], SE2),
    "rolling disk": (DISK.system, DISK.q0, DISK.v0, ["∂φ"], ["∂x", "∂y", "∂θ", "-y ∂x + x ∂y + ∂φ"]),
    "curvature": (CURVED.system, CURVED.q0, CURVED.v0, [], ["∂x", "∂y", "-y ∂x + x ∂y"]),
    "central": (da.System(central, coordinates=XY), [4.0, -2.0], [0.0, 1.0], ["(-y - 2) ∂x + (x - 3) ∂y"], []),
    "three masses": (
        da.System(three_masses, coordinates=("x", "y", "a", "b", "c", "d")), [0.0, 0.0, 1.1, 0.0, 1.5, 0.9],
        [0.1, 0.3, 0.0, -0.2, 0.0, 0.1],
        ["∂x + ∂a + ∂c", "∂y + ∂b + ∂d", "-y ∂x + x ∂y - b ∂a + a ∂b - d ∂c + c ∂d", ALONE], [],
    ),
    "relativistic": (
        da.System(relativistic, coordinates=("x", "y", "z")), [0.1, 0.2, 0.3], [1.0, 2.0, 0.5],
        ["∂x", "∂y", "-y ∂x + x ∂y"], [],
    ),
    "other units": (SKATE, [1e8, 3e8, 0.0], [1e5, 0.0, 500.0], ["∂θ"], ["∂x", "∂y", "-y ∂x + x ∂y + 1000 ∂θ"]),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_symmetries_that_are_known_are_found_and_no_others(name):
    system, q0, v0, kept, others = KNOWN[name]
    found = da.symmetries(system, q0, v0)
    assert sorted(one.name for one in found if one.conserved) == sorted(kept)
    rest = [one for one in found if not one.conserved]
    assert sorted(one.name for one in rest) == sorted(x.replace("θ", "theta") if name == "knife edge" else x for x in others)
    assert all("momentum equation" in one.theorem and one.is_symmetry for one in rest)
    assert found.accepted < 1e-14
    assert found.rejected > 1e-5
    assert found.gap > 1e9


def test_a_small_size_far_from_the_origin_changes_nothing():
    names = [one.name for one in da.symmetries(SKATE, [1e8, 3e8, 0.0], [1e5, 0.0, 500.0], size=[1.0, 1.0, 1000.0])]
    assert names == ["∂x", "∂y", "-y ∂x + x ∂y + 1000 ∂θ", "∂θ"]


def pushed(q, v):
    return jnp.array([0.0, 1e-6])


BROKEN = {
    "potential": (da.System(lambda q, v: central(q, v) + 1e-7 * q[0] ** 2), 0),
    "mass": (da.System(lambda q, v: central(q, v) + 1e-7 * v[0] ** 2), 0),
    "coupling": (da.System(lambda q, v: central(q, v) + 1e-7 * q[0] * v[1]), 0),
    "force": (da.System(central, forces=pushed), 0),
    "constraint": (da.System(central, da.Nonholonomic(lambda q, v: v @ v - 1.0 + 1e-6 * q[0])), 0),
    "reactions": (
        da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: a @ v, reactions=lambda q, v, a: v + 1e-6)), 2),
    "time": (da.System(lambda q, v, t: central(q, v) + 1e-7 * t * q[0], time_dependent=True), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_planted_breach_of_the_symmetry_is_seen(name):
    system, left = BROKEN[name]
    found = [one for one in da.symmetries(system, [4.0, -2.0], [0.3, 1.0]) if one.is_symmetry]
    assert len(found) == left
    turn = lambda q, *_: jnp.array([-q[1] - 2.0, q[0] - 3.0])  # noqa: E731
    (given,) = da.symmetries(system, [4.0, -2.0], [0.3, 1.0], generators={"turn": turn})
    assert not given.is_symmetry
    assert given.residual > 1e-9


def test_a_symmetry_takes_motions_to_motions_also_in_the_discrete():
    q0, v0, run = np.array(DISK.q0), np.array(DISK.v0), {"h": 0.05, "steps": 40}
    path = da.simulate(DISK.system, q0, v0, **run)
    for one in (x for x in da.symmetries(DISK.system, q0, v0) if x.is_symmetry):
        block = np.zeros((5, 5))
        block[:4, :4], block[:4, 4] = one.matrix, one.shift
        moved = expm(0.7 * block)
        by, ahead = moved[:4, :4], moved[:4, 4]
        other = da.simulate(DISK.system, by @ q0 + ahead, by @ v0, **run)
        np.testing.assert_allclose(other.q, path.q @ by.T + ahead, rtol=0, atol=1e-12)
    edge = [x for x in da.symmetries(DISK.system, q0, v0) if not x.is_symmetry]
    assert [x.name for x in edge] == ["∂φ"]  # its momentum is kept, but it takes no motion to a motion


def test_of_order_two_the_momentum_is_kept_with_a_constraint():
    problem = da.VariationalProblem(
        lambda q, v, a: 0.5 * a @ a - 0.1 * (q @ q) * (v @ v), da.Holonomic(lambda q: q @ q - 1.0), derivatives=2,
        coordinates=("x", "y", "z"),
    )  # fmt: skip
    found = da.symmetries(problem, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    assert [one.name for one in found] == ["-y ∂x + x ∂y", "-z ∂x + x ∂z", "-z ∂y + y ∂z"]
    assert {one.theorem for one in found} == {"J = Θ·ξ of order 2 is kept"}
    assert not da.symmetries(problem, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], kind="translations").found
    rolling = da.VariationalProblem(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[1] - q[0] * v[0]))
    both = {"x": (np.zeros((2, 2)), [1.0, 0.0]), "y": (np.zeros((2, 2)), [0.0, 1.0])}
    x, y = da.symmetries(rolling, [0.5, 0.0], [1.0, 0.5], generators=both)
    assert (x.conserved, y.conserved) == (False, True)  # vakonomic: what changes φ changes the momentum
    assert "the constraints in the action change" in x.describe()


def test_what_is_found_can_be_given_to_a_verdict_and_read():
    found = da.symmetries(SPHERE.system, SPHERE.q0, SPHERE.v0)
    assert len(found) == 1
    assert found["-y ∂x + x ∂y"] is found[0]
    assert list(found.generators) == ["-y ∂x + x ∂y"]
    assert "Noether" in str(found)
    assert "4e-0" not in found[0].describe()
    with pytest.raises(KeyError, match="there are '-y ∂x"):
        found["∂x"]
    linear = da.symmetries(da.System(lambda q, v: 0.5 * v @ v, coordinates=XY), [1.0, 0.5], [0.2, 1.0], kind="linear")
    assert [one.name for one in linear] == ["-y ∂x + x ∂y"]
    np.testing.assert_allclose(linear[0].generator(jnp.array([1.0, 2.0])), [-2.0, 1.0])


def test_mistakes_are_named():
    free = da.System(lambda q, v: 0.5 * v @ v)
    with pytest.raises(ValueError, match="generators: a returns shape"):
        da.symmetries(free, [0.0, 1.0], [1.0, 0.0], generators={"a": lambda q: q[:1]})
    with pytest.raises(ValueError, match="generators: a: found shapes"):
        da.symmetries(free, [0.0, 1.0], [1.0, 0.0], generators={"a": (np.eye(3), np.zeros(3))})
    with pytest.raises(ValueError, match="size: found"):
        da.symmetries(free, [0.0, 1.0], [1.0, 0.0], size=[1.0, 0.0])
    with pytest.raises(ValueError, match="kind: 2550 unknowns for 50"):
        da.symmetries(free, np.ones(50), np.ones(50))
    outside = da.System(lambda q, v: 0.5 * v @ v + jnp.log(q[0] - 5.0))
    with pytest.raises(ValueError, match="only 0 lie on the constraints with finite"):
        da.symmetries(outside, [1.0], [1.0])


def on_nodes(slipping=0.0):
    """A knife edge on nodes, lengths of thousandths: the blade as it stands half way."""

    def blade(a, b):
        angle, way = 0.5 * (a[2] + b[2]), b - a
        return jnp.sin(angle) * way[0] - jnp.cos(angle) * way[1] + slipping * a[0] * way[2]

    return da.DiscreteSystem.nonholonomic(
        lambda a, b: 5.0 * (1e6 * (b - a)[:2] @ (b - a)[:2] + (b[2] - a[2]) ** 2), blade,
        lambda q: jnp.array([jnp.sin(q[2]), -jnp.cos(q[2]), 0.0]), coordinates=("x", "y", "θ"),
    )  # fmt: skip


def test_symmetries_of_a_discrete_system():
    """SE(2) of the knife edge, and p_θ; a blade that reads x loses all that moves x; Noether's theorem along a run."""
    start = [5e-3, 3e-3, 0.4], [1e-4 * np.cos(0.45), 1e-4 * np.sin(0.45), 0.1]
    size = [1e-3, 1e-3, 1.0]
    found = da.symmetries(on_nodes(), *start, size=size)
    assert [one.name for one in found] == ["∂x", "∂y", "-y ∂x + x ∂y + ∂θ", "∂θ"]
    assert [one.is_symmetry for one in found] == [True, True, True, False]
    assert [one.conserved for one in found] == [False, False, False, True]
    left = da.symmetries(on_nodes(1.0), *start, size=size)
    assert [one.name for one in left if one.is_symmetry] == ["∂y"]
    path = da.simulate(on_nodes(), start=da.Start(nodes=np.array([start[0], np.add(*start)])), h=1.0, steps=20)
    p = da.measure.momentum(on_nodes(), path, found["∂θ"].generator).values
    np.testing.assert_allclose(p, 1.0, rtol=1e-10)


@pytest.mark.parametrize("factor", [1, 2])
def test_impulses_of_a_discrete_system(factor):
    """Friction -c(q₁ - q₀) at both ends turns with a blade, and acts along; one that is stronger along y does not turn. The
    node of the reactions begins or ends a window of two."""
    blade = lambda a, b: (b[1] - a[1]) * jnp.cos(0.5 * (a[2] + b[2])) - (b[0] - a[0]) * jnp.sin(0.5 * (a[2] + b[2]))  # noqa: E731
    across = lambda *q: jnp.array([-jnp.sin(q[factor - 1][2]), jnp.cos(q[factor - 1][2]), 0.0])  # noqa: E731
    start = [5e-3, 3e-3, 0.4], [1e-4 * np.cos(0.45), 1e-4 * np.sin(0.45), 0.1]

    def found(*c):
        parts = {"reactions": across, "order": 1, "factor": factor, "coordinates": ("x", "y", "θ")}
        parts["forces"] = lambda a, b: (-jnp.array(c) * (b - a),) * 2
        rubbed = da.DiscreteSystem(lambda a, b: (b - a) @ (b - a), blade, **parts)
        every = da.symmetries(rubbed, *start, size=[1e-3, 1e-3, 1.0])
        assert not any(one.conserved for one in every)
        return [one.name for one in every if one.is_symmetry]

    assert found(0.2, 0.2, 0.1) == ["∂x", "∂y", "-y ∂x + x ∂y + ∂θ"]
    assert found(0.2, 0.3, 0.1) == ["∂x", "∂y"]
