"""The traceback of a mistake in a user's function ends at its line, without frames of this package and of JAX below it."""

import math
import traceback

import jax.numpy as jnp
import pytest

import dalembert as da


def branching(q):
    return 1.0 if q[0] > 0 else 0.0


def number(q):
    return math.cos(q[0])


MISTAKES = {
    "shapes": (lambda q: jnp.zeros(3) @ jnp.zeros(2), TypeError, "could not be evaluated: TypeError"),
    "control flow": (branching, TypeError, "uses Python control flow"),
    "a number": (number, TypeError, "turns a traced value into a Python or NumPy number"),
}


CALLS = {
    da.System: (da.simulate, {"q0": [1.0], "v0": [0.0], "h": 0.1, "steps": 2}),
    da.VariationalProblem: (da.solve, {"initial": ([0.0],), "final": ([1.0],), "T": 1.0, "steps": 4}),
}


def frames_of(error):
    assert error.__cause__ is None
    assert error.__suppress_context__
    return traceback.extract_tb(error.__traceback__)


@pytest.mark.parametrize(("potential", "kind", "words"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("problem", CALLS)
def test_the_traceback_ends_at_the_users_line(potential, kind, words, problem):
    subject = problem(lambda q, v: 0.5 * v @ v - potential(q))
    run, data = CALLS[problem]
    with pytest.raises(kind, match=f"lagrangian: {words}") as caught:
        run(subject, **data)
    frames = frames_of(caught.value)
    assert frames[-1].filename == __file__
    assert frames[-1].name == potential.__name__
    assert [frame.filename for frame in frames].count(__file__) == 3  # this test, L and what it calls
    assert len(frames) <= 5
    assert not getattr(caught.value, "__notes__", [])


def test_a_missing_parameter_names_those_there_are():
    system = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v - p["G"] * q[0], parameters={"m": 1.0, "g": 9.81})
    with pytest.raises(
        ValueError, match="lagrangian: could not be evaluated: KeyError: 'G'; the parameters are g, m"
    ) as caught:
        da.simulate(system, [1.0], [0.0], h=0.1, steps=2)
    assert 'p["G"]' in frames_of(caught.value)[-1].line


def test_a_reducer_that_fails_is_shown_at_its_line():
    def reducer(value, t, q, v, multipliers):
        return value + undefined

    system = da.System(lambda q, v: 0.5 * v @ v)
    with pytest.raises(TypeError, match="reduce: could not be evaluated: NameError") as caught:
        da.simulate(system, [1.0], [0.0], h=0.1, steps=2, save=da.Save(reduce=(reducer, 0.0)))
    assert frames_of(caught.value)[-1].name == "reducer"


def test_an_error_that_is_no_mistake_in_a_function_keeps_its_frames():
    with pytest.raises(ValueError, match="q0") as caught:
        da.simulate(da.System(lambda q, v: 0.5 * v @ v), [[1.0]], [0.0], h=0.1, steps=2)
    assert "dalembert" in traceback.extract_tb(caught.value.__traceback__)[-1].filename


def test_a_name_that_was_mistyped_is_suggested():
    with pytest.raises(AttributeError, match=r"no attribute 'plott'; did you mean plot\?"):
        da.plott
    assert not hasattr(da, "__wrapped__")
