"""One swing-up for all tests of a module."""

import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import cart_pole

REST = [0.0, 0.0]
UP = ([1.0, np.pi], REST)


@pytest.fixture(scope="package")
def swing_up():
    problem = cart_pole.cart_pole()
    ends = {"initial": (REST, REST), "final": UP, "T": 2.0, "steps": 80, "bounds": {"u": (-25.0, 25.0)}}
    return problem, da.solve(problem, **ends), ends
