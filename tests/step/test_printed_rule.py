"""The branch rule of Borda, Fernández and Grillo as printed: the nearest root, and less V where two are close."""

import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import inertia_wheel_pendulum as wheel
from papers.borda_fernandez_grillo import pendulum
from papers.convergence import PRINTED


def test_roots_that_are_close_are_told_apart_by_the_function():
    """The root nearest to the previous θ is spurious, u = 0, at t = 1.3; where δ is large V decides, and never is."""
    rule = da.Nearest("previous", coordinates=(0,), within=10.0, least=wheel.lyapunov)
    _, q, v = pendulum.state(pendulum.run(PRINTED, 0.1, 2.0, solver=da.Solver(branch=rule)))
    assert np.min(np.abs(pendulum.factor(q, v))) > 1e-7


def test_one_without_the_other_is_named():
    with pytest.raises(ValueError, match="within, least: found one of them"):
        da.Nearest(within=0.1)
