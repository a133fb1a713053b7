"""The satellite and the slung load of the gallery against closed forms, in which nothing of the library is used."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation
from scipy.special import ellipj, ellipk

import dalembert as da
from dalembert.gallery import ENTRIES, satellite, slung_load

OMEGA, WHEELS, LENGTH, SWING = satellite.OMEGA, satellite.WHEELS, slung_load.LENGTH, slung_load.SWING
MOMENTS, WHEEL, DAMPING = np.array([1.0, 1.5, 2.2]), 0.1, 1.2
LOADED, SATELLITE = ENTRIES["slung_load"], ENTRIES["satellite"]


def only_damped(t):
    """R, ω and ψ̇ with k = 0: ω = e^(-dt) ω₀, and the wheels have what of R₀J₀ the body has not."""
    R_0 = Rotation.from_quat(SATELLITE.q0[:4], scalar_first=True).as_matrix()
    omega = np.exp(-DAMPING * t)[:, None] * np.array(OMEGA)
    R = R_0 @ Rotation.from_rotvec(((1.0 - np.exp(-DAMPING * t)) / DAMPING)[:, None] * np.array(OMEGA)).as_matrix()
    momentum = R_0 @ (MOMENTS * np.array(OMEGA) + WHEEL * (np.array(OMEGA) + np.array(WHEELS)))
    return R, omega, (np.einsum("tji,j->ti", R, momentum) - MOMENTS * omega) / WHEEL - omega


@pytest.mark.parametrize(("order", "tolerance"), [(2, 3e-3), (4, 1e-7), (6, 1e-12)])
def test_wheels_take_up_the_momentum_of_a_satellite(order, tolerance):
    path = da.simulate(
        satellite.satellite(stiffness=0.0), SATELLITE.q0, SATELLITE.v0, h=0.05, steps=100, scheme=da.Scheme(order=order)
    )
    for found, wanted in zip((path["R"], path.v[:, :3], path.v[:, 3:]), only_damped(path.t), strict=True):
        assert_allclose(found, wanted, rtol=0, atol=tolerance)


def test_a_satellite_is_turned_to_the_axes_of_space_and_keeps_its_momentum():
    system, entry = SATELLITE.system, SATELLITE
    path = da.simulate(system, entry.q0, entry.v0, h=0.02, steps=1500)
    assert_allclose(path["R"][-1], np.eye(3), rtol=0, atol=1e-6)
    for i in range(3):
        kept = da.measure.momentum(system, path, lambda q, p, i=i: jnp.append(q.R[i], jnp.zeros(3))).values
        assert_allclose(kept, kept[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("order", "tolerance"), [(2, 4e-3), (4, 6e-7), (6, 3e-11)])
def test_a_load_below_a_level_quadrotor_swings_like_a_pendulum(order, tolerance):
    """In axes that fall with the load, thrust pulls the rotorcraft up: gravity g(1 + m/M), sin ½θ = k cd(Ωt)."""
    level = {"R": np.eye(3), "x": np.zeros(3), "y": [LENGTH * np.sin(SWING), 0.0, -LENGTH * np.cos(SWING)]}
    path = da.simulate(LOADED.system, level, LOADED.v0, h=0.02, steps=200, scheme=da.Scheme(order=order))
    parameters = LOADED.system.parameters
    M, m, g = (float(parameters[name]) for name in "Mmg")
    modulus, rate = np.sin(0.5 * SWING), np.sqrt(g * (1.0 + m / M) / LENGTH)
    sn = ellipj(ellipk(modulus**2) + rate * path.t, modulus**2)[0]
    rod, centre = path["y"] - path["x"], M * path["x"] + m * path["y"]
    assert_allclose(np.arctan2(rod[:, 0], -rod[:, 2]), 2.0 * np.arcsin(modulus * sn), rtol=0, atol=tolerance)
    assert_allclose(centre, np.broadcast_to(centre[0], centre.shape), rtol=0, atol=1e-12)
    assert_allclose(np.linalg.norm(rod, axis=1), LENGTH, rtol=0, atol=1e-14)


def test_a_quadrotor_rights_itself_with_its_load():
    path = da.simulate(LOADED.system, LOADED.q0, LOADED.v0, h=LOADED.h, steps=600)
    assert path["R"][0, 2, 2] < 0.96
    assert path["R"][-1, 2, 2] > 1.0 - 1e-6
