"""The number of BLAS threads inside and after a solution, in one thread and in several, after an error too."""

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  its BLAS is one of those that are limited
from threadpoolctl import ThreadpoolController, threadpool_limits

import dalembert as da
from dalembert.algebra import one_blas_thread


def threads() -> list[int]:
    return [x["num_threads"] for x in ThreadpoolController().info() if x["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _two():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_one_inside_and_as_before_afterwards():
    before = threads()
    with one_blas_thread(), one_blas_thread():
        assert set(threads()) == {1}
    assert threads() == before
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        1 / 0
    assert threads() == before


def test_threads_that_overlap():
    """The first leaves while the second is inside: nothing stays limited."""
    before, inside, leave = threads(), threading.Event(), threading.Event()

    def second():
        with one_blas_thread():
            inside.set()
            leave.wait(10.0)

    for first_leaves_first in (True, False):
        other = threading.Thread(target=second)
        with one_blas_thread():
            other.start()
            inside.wait(10.0)
            assert set(threads()) == {1}
            if not first_leaves_first:
                leave.set()
                other.join()
        leave.set()
        other.join()
        assert threads() == before
        inside.clear()
        leave.clear()


def test_a_solution_has_one(monkeypatch):
    seen, before = [], threads()

    def lagrangian(q, v):
        seen.append(threads())
        return 0.5 * v @ v + q[0] ** 4

    da.solve(da.VariationalProblem(lagrangian), initial=([0.0],), final=([1.0],), T=1.0, steps=10)
    assert set(np.ravel(seen)) == {1}
    assert threads() == before
