"""A mesh that does not resolve the motion is told by a warning, as by simulate."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

STIFF = da.System(lambda q, v: 0.5 * v @ v - 0.5 * 60.0**2 * (1.0 - jnp.cos(q[0])))
TASK = da.OptimalControl(STIFF, cost=lambda q, v, u: u @ u, actuated=0)
ENDS = {"initial": ([0.5], [0.0]), "final": ([0.0], [0.0]), "T": 1.0}


def test_coarse_steps_are_told_and_fine_ones_are_not():
    with pytest.warns(UserWarning, match=r"steps: found 8; the plant, integrated over step \d+ .* use more steps"):
        da.solve(TASK, **ENDS, steps=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.solve(TASK, **ENDS, steps=400)


@pytest.mark.parametrize("constraints", [
    (), da.Holonomic(lambda q: q[1] - jnp.sin(q[0])), da.Nonholonomic(lambda q, v: v[1] - q[2] * v[0])
])  # fmt: skip
def test_few_steps_that_suffice_are_not_told(constraints):
    plant = da.OptimalControl(
        da.System(lambda q, v: 0.5 * v @ v, constraints), cost=lambda q, v, u: u @ u, actuated=lambda q: jnp.eye(3)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.solve(plant, initial=(np.zeros(3), np.zeros(3)), final=([0.5, np.sin(0.5), 1.0], np.zeros(3)), T=1.0, steps=5)
        da.solve(
            plant, initial=(np.zeros(3), np.zeros(3)), final=({0: 0.5, 2: 1.0}, None), T=1.0, steps=10, bounds={"u": (-9, 9)}
        )
