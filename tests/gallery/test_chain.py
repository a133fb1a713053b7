"""The chain of rods against the same chain in angles, the pendulum, Laguerre's frequencies, and its weight at rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES, chain

placed = chain.placed

G = 9.81


def in_angles(rods: int) -> da.System:
    """L = ½ Σᵢⱼ (N - max(i,j) + 1) cos(θᵢ-θⱼ) θ̇ᵢθ̇ⱼ + g Σᵢ (N - i + 1) cos θᵢ, without constraints."""
    i = np.arange(rods)
    weights = rods - np.maximum(i[:, None], i)
    mass = lambda q: weights * jnp.cos(q[:, None] - q)  # noqa: E731
    return da.System(lambda q, v: 0.5 * v @ mass(q) @ v + G * weights.diagonal() @ jnp.cos(q))


def order(system, q0, exact) -> float:
    """Order of q over two time units from rest, fitted by two steps; exact(t) gives q."""
    errors = []
    for h in (0.01, 0.005):
        path = da.simulate(system, q0, np.zeros(len(q0)), h=h, steps=round(2.0 / h), solver=da.Solver(backend="native"))
        errors.append(float(np.abs(path.q - exact(path.t)).max()))
    assert errors[1] < 1e-2
    return float(np.log2(errors[0] / errors[1]))


def test_the_same_chain_in_angles():
    def exact(t):
        angles = da.reference(in_angles(3), np.linspace(0.3, 1.2, 3), np.zeros(3), t, tolerance=1e-11).q
        return np.array([placed(row) for row in np.asarray(angles)])

    assert abs(order(chain.chain(), chain.slanted(3), exact) - 2.0) < 0.05


def test_one_rod_is_the_pendulum():
    closed = lambda t: ENTRIES["pendulum"].exact(t, g_over_l=G)[0]  # noqa: E731
    exact = lambda t: np.array([placed(angle) for angle in closed(t)])  # noqa: E731
    assert abs(order(chain.chain(1), placed([1.0]), exact) - 2.0) < 0.05


@pytest.mark.parametrize("rods", [1, 2, 5])
def test_frequencies_of_small_oscillations(rods):
    """ω² are the eigenvalues of -∂ẍ/∂x at rest, along the chain's tangent space, where all y stay."""
    system, rest = chain.chain(rods).replace(l=2.0), jnp.asarray(placed(np.zeros(rods), 2.0))
    sideways = lambda x: da.acceleration(system, rest.at[::2].set(x), jnp.zeros(2 * rods))[0][::2]  # noqa: E731
    squares = np.linalg.eigvals(-np.asarray(jax.jit(jax.jacfwd(sideways))(jnp.zeros(rods))))
    np.testing.assert_allclose(np.sort(np.sqrt(squares)), chain.frequencies(rods, G, 2.0), rtol=1e-8)


def test_rods_carry_the_weight_below_them():
    path = da.simulate(chain.chain(4), placed(np.zeros(4)), np.zeros(8), h=0.01, steps=5)
    np.testing.assert_allclose(path.multipliers, -np.tile(G / 2 * np.arange(4, 0, -1.0), (5, 1)), rtol=1e-12)


def test_energy_stays_within_a_bound_and_rods_keep_their_length():
    """No drift: the error of the energy is no larger in the second half of 20 000 steps than in the first."""
    system = chain.chain(3)
    path = da.simulate(
        system,
        chain.slanted(3),
        np.zeros(6),
        h=0.005,
        steps=20_000,
        save=da.Save(every=20),
        solver=da.Solver(backend="native"),
    )
    energy = np.asarray(jax.vmap(lambda q, v: da.energy(system, q, v))(path.q, path.v))
    first, second = np.split(np.abs(energy - energy[0])[1:], 2)
    assert max(first) < 1e-4 * abs(energy[0])
    assert max(second) < 1.5 * max(first)
    joints = np.concatenate([np.zeros((len(path.q), 1, 2)), np.asarray(path.q).reshape(-1, 3, 2)], axis=1)
    assert np.abs(np.linalg.norm(np.diff(joints, axis=1), axis=2) - 1.0).max() < 1e-13
