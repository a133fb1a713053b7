"""Verdicts on systems whose solvability and integrability are known, with planted failures of every kind."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

Q, V = np.array([0.1, 1.0, 0.0]), np.array([0.6, 0.8, 0.6])


def kinetic(q, v):
    return 0.5 * v @ v


def twisted(q, v):
    return v[2] - q[1] * v[0]


def verdict(phi=twisted, lagrangian=kinetic, q=Q, v=V, **options) -> da.systems.Solvability:
    return da.solvability(da.System(lagrangian, da.Nonholonomic(phi, **options)), q, v)


def test_a_solvable_problem_and_its_curvature():
    """ω = dz - y dx: dω = dx∧dy, and the normal part of [∂_y, (∂_x + y∂_z)/√(1+y²)] has length 1/(1+y²)."""
    found = verdict()
    assert found.solvable
    assert found.positive
    assert found.chetaev
    assert (found.rank, found.ranks_nearby, found.mass_on_kernel) == (1, (1, 1), pytest.approx(1.0))
    assert found.integrable is False
    assert found.frobenius.at_point == pytest.approx(1 / (1 + Q[1] ** 2), rel=1e-12)
    assert found.frobenius.reached == 4
    assert "solvable: one motion" in str(found)
    assert "not integrable: curvature 0.5 here; D + [D, D] spans 4 of 4" in str(found)


def test_how_a_constraint_is_written_does_not_matter():
    """A common factor, even one that depends on q, changes neither integrability nor curvature."""
    curved = verdict(lambda q, v: 1e6 * jnp.exp(q[0]) * twisted(q, v))
    assert curved.frobenius.at_point == pytest.approx(1 / (1 + Q[1] ** 2), rel=1e-9)
    sphere = verdict(lambda q, v: 1e6 * jnp.exp(q[0]) * (q @ v), v=np.array([1.0, -0.1, 0.3]))
    assert sphere.integrable is True
    assert "holonomic leaves; Holonomic(...) would keep positions on the leaf exactly" in str(sphere)


def test_a_point_where_the_curvature_vanishes_is_no_integrable_distribution():
    found = verdict(lambda q, v: v[2] - q[1] ** 2 * v[0], q=np.zeros(3), v=np.array([1.0, 0.5, 0.0]))
    assert found.frobenius.at_point == 0.0
    assert found.integrable is False
    assert "although zero at this point itself" in str(found)


def test_a_moving_holonomic_constraint_is_integrable_in_space_and_time():
    """d/dt (x cos t) = 0 is integrable, ẋ = y is not: with n - m = 1 the distribution in q alone would always be."""
    make = lambda phi: da.System(lambda q, v, t: 0.5 * v @ v, da.Nonholonomic(phi), time_dependent=True)  # noqa: E731
    rod = make(lambda q, v, t: v[0] * jnp.cos(t) - q[0] * jnp.sin(t))
    assert da.solvability(rod, [1.0, 0.0], [np.tan(0.3), 1.0], 0.3).integrable is True
    assert da.solvability(make(lambda q, v, t: v[0] - q[1]), [1.0, 0.0], [0.0, 1.0]).integrable is False


def test_one_holonomic_combination_is_seen():
    both = da.System(kinetic, [da.Nonholonomic(twisted), da.Nonholonomic(lambda q, v: q @ v)])
    found = da.solvability(both, [0.1, 1.0, 0.0, 0.3], np.zeros(4))
    assert found.frobenius.reached == 4
    assert "4 of 5 directions of (q, t); a part is integrable: functions of position that are constant on leaves: 1" in str(
        found
    )


@pytest.mark.parametrize(("phi", "kept"), [
    (lambda q, v: q @ v, 1), (lambda q, v: jnp.stack([v[3] - q[0] * v[0], v[2] + jnp.exp(q[3]) * v[3]]), 2),
    (lambda q, v: jnp.stack([v[2] - q[1] * v[0] + v[3] - v[0], v[3] - v[0]]), 1), (twisted, 0),
    (lambda q, v: jnp.stack([v[2] - q[1] * v[0], v[1] - q[3] * v[0]]), 0), (lambda q, v: v @ v - 1.0, 0),
])  # fmt: skip
def test_functions_of_position_are_counted(phi, kept):
    """|q|², two graphs, w - x beside a contact form, a contact form, Engel's, whose derived one is not closed, none."""
    found = da.solvability(da.System(kinetic, da.Nonholonomic(phi)), [0.1, 1.0, 0.2, 0.3], np.zeros(4))
    assert found.first_integrals == kept
    assert ("constant on leaves" in str(found)) is (kept > 0)


def test_constraints_nonlinear_in_the_velocities_have_no_distribution():
    found = verdict(lambda q, v: v[2] ** 2 - v[0] ** 2 - v[1] ** 2, v=np.array([0.6, 0.8, 1.0]))
    assert found.solvable
    assert found.integrable is None
    assert "nonlinear in v" in str(found)


def test_a_singular_point_and_redundant_constraints():
    origin = verdict(lambda q, v: q @ v, q=np.zeros(3))
    assert not origin.solvable
    assert (origin.rank, origin.ranks_nearby) == (0, (1, 1))
    assert "but 1 at nearby points: this point is singular" in str(origin)
    twice = verdict(lambda q, v: twisted(q, v) * jnp.array([1.0, 2.0]))
    assert str(twice).startswith("not solvable: dependent constraints\n")
    assert "remove it" in str(twice)


def test_inconsistent_data():
    found = verdict(v=np.array([0.6, 0.8, 0.7]))
    assert not found.solvable
    assert found.residual == pytest.approx(0.1)
    assert "dalembert.project finds" in str(found)


@pytest.mark.parametrize(
    ("masses", "row", "solvable", "words"),
    [
        ((1, 1, 0), None, True, "dalembert.systems.reduction does not apply, dalembert.acceleration"),
        ((1, 0, 0), None, False, "mass matrix is singular on ker"),
        ((1, -1, 1), None, True, "an indefinite kinetic energy"),
        ((1, 1, 1), (0.0, 1.0, 0.0), False, "a force along R must change the value"),
    ],
    ids=["singular, but not on the kernel", "singular on the kernel", "indefinite", "powerless reactions"],
)
def test_the_mass_and_the_reactions(masses, row, solvable, words):
    m = jnp.array(masses, dtype=float)
    reactions = None if row is None else lambda q, v: jnp.array(row)
    found = verdict(lagrangian=lambda q, v: 0.5 * m @ v**2, reactions=reactions)
    assert found.solvable is solvable
    assert words in str(found)
    mu = np.array([[-Q[1], 0.0, 1.0]])
    forces = mu if row is None else np.array([row])
    whole = np.block([[np.diag(np.asarray(m)), -forces.T], [mu, np.zeros((1, 1))]])  # the matrix of (v̇, λ)
    assert bool(np.linalg.matrix_rank(whole) == 4) is solvable
