"""A robot that several tests fly."""

import jax.numpy as jnp
import pytest

import dalembert as da
from dalembert.groups import SO3


def thrust(q, p):
    """Of the propellers along the third axis, and three torques."""
    up = jnp.concatenate([jnp.zeros(3), q.R[:, 2]])
    return jnp.concatenate([up[:, None], jnp.eye(6)[:, :3]], axis=1)


@pytest.fixture(scope="session")
def quadrotor():
    return da.OptimalControl(
        da.System(
            lambda q, v, p: 0.5 * v.R @ (p["J"] * v.R) + 0.5 * p["m"] * v.x @ v.x - p["m"] * p["g"] * q.x[2],
            coordinates={"R": SO3, "x": 3}, parameters={"J": [0.1, 0.12, 0.2], "m": 1.0, "g": 9.81},
        ),
        cost=lambda q, v, u, p: u @ u,
        actuated=thrust,
    )  # fmt: skip
