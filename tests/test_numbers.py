"""What is taken as data, and how it arrives: float64, of its own memory, whatever it was; traced values by their type."""

import fractions

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.numbers import as_array, as_number, as_numbers, whole_number


class Foreign:
    """An array of another library."""

    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0], dtype=dtype)


@pytest.mark.parametrize(
    "given",
    [[1, 2], (1.0, 2), range(1, 3), np.array([1, 2], dtype=np.uint8), np.float32([1, 2]), np.longdouble([1, 2]),
     Foreign(), memoryview(np.array([1.0, 2.0])), [np.float64(1), jnp.asarray(2)], jnp.array([1, 2]),
     jnp.array([1.0, 2.0], dtype=jnp.bfloat16)],
)  # fmt: skip
def test_real_numbers_of_every_kind_are_taken(given):
    for array in (as_numbers(given, "x"), as_array(given, "x")):
        assert array.dtype == np.float64
        np.testing.assert_array_equal(array, [1.0, 2.0])
    assert not as_array(given, "x").weak_type  # or 1.0 and np.float64(1.0) would compile two programs


def test_what_is_taken_is_a_copy():
    """At every alignment: JAX may share the memory of an array of NumPy."""
    room = np.zeros(64)
    for start in range(16):
        given = room[start : start + 40]
        taken = as_array(given, "x"), as_numbers(given, "x"), da.Nodes(given.reshape(2, 20)).q
        system = da.System(lambda q, v, p: 0.5 * (v @ v), parameters={"k": given})
        given[:] = 7.0
        for array in (*taken, system.parameters["k"]):
            np.testing.assert_array_equal(array, np.zeros(array.shape))
        given[:] = 0.0


def test_traced_values_have_a_type_and_a_shape():
    data = lambda x: as_array([x, 2.0], "x")  # noqa: E731
    np.testing.assert_array_equal(jax.jit(data)(1), [1.0, 2.0])
    np.testing.assert_array_equal(jax.vmap(data)(jnp.arange(2)), [[0.0, 2.0], [1.0, 2.0]])
    assert jax.grad(lambda x: data(x) @ data(x))(3.0) == 6.0
    for wrong in (True, 1j):
        with pytest.raises(TypeError, match=r"x: found .* which is not an array of numbers"):
            jax.jit(lambda x: as_array(x, "x"))(wrong)
    with pytest.raises(TypeError, match=r"x\[1\]: found True; True and False are not numbers"):
        jax.jit(lambda x: as_array([x, True], "x"))(1.0)
    with pytest.raises(ValueError, match=r"h: found shape \(2,\); give a positive"):
        jax.jit(lambda h: as_number(h, "h", "a positive number"))(jnp.ones(2))
    with pytest.raises(TypeError, match="x: found a traced value"):
        jax.jit(lambda x: as_numbers(x, "x"))(1.0)


def test_keys_of_random_numbers_are_none():
    for call in (lambda key: as_array(key, "x"), jax.jit(lambda key: as_array(key, "x"))):
        with pytest.raises(TypeError, match=r"x: found .*which is not an array of numbers"):
            call(jax.random.key(0))


def test_constants_are_looked_at_inside_jit_too():
    with pytest.raises(ValueError, match="x: found nan at index 1"):
        jax.jit(lambda x: x + as_array([0.0, np.nan], "x"))(1.0)


def test_messages_tell_where_and_how_many():
    table = np.zeros((3, 2))
    table[1, 0] = table[2] = np.inf
    with pytest.raises(ValueError, match=r"nodes: found inf at index 1, 0 \(3 such numbers\); every number must be finite"):
        as_numbers(table, "nodes")
    with pytest.raises(TypeError, match=r"q0\[1\]\[0\]: found a masked entry"):
        as_numbers([[1.0], [np.ma.masked]], "q0")
    with pytest.raises(TypeError, match=r"h: found Fraction Fraction\(1, 10\), which is not a number; give a finite number"):
        as_number(fractions.Fraction(1, 10), "h")
    with pytest.raises(
        ValueError, match="steps: found an integer of 1329 bits; give a whole number, from 1 to 9007199254740992"
    ):
        whole_number(10**400, "steps")
    assert whole_number(np.int32(3), "steps") == whole_number(jnp.asarray(3), "steps") == 3


@pytest.mark.parametrize("backend", ["jax", "native"])
def test_flags_among_the_parameters_stay_flags(backend):
    """They choose between formulas; a number in their place, or they in place of a number, is refused."""
    falling = da.System(
        lambda q, v, p: 0.5 * (v @ v) - jnp.where(p["heavy"] & ~p["off"], p["g"], 0.0) * q[0],
        parameters={"heavy": True, "off": np.array(False), "g": 2.0},
    )
    ends = [
        float(da.simulate(system, [0.0], [0.0], h=0.1, steps=10, solver=da.Solver(backend=backend)).q[-1, 0])
        for system in (falling, falling.replace(heavy=False), falling.replace(off=True))
    ]
    np.testing.assert_allclose(ends, [-1.0, 0.0, 0.0], rtol=0, atol=1e-14)
    many = da.ensemble(
        falling, [0.0], [0.0], parameters={"heavy": [True, False]}, h=0.1, steps=10, solver=da.Solver(backend=backend)
    )
    np.testing.assert_allclose(many.q[:, -1, 0], [-1.0, 0.0], rtol=0, atol=1e-14)
    with pytest.raises(
        ValueError, match=r"replace\['heavy'\]: found shape \(\); the system was built with .* true and false"
    ):
        falling.replace(heavy=1.0)
    with pytest.raises(ValueError, match=r"replace\['g'\]: found shape \(\) of true and false"):
        falling.replace(g=True)
    with pytest.raises(ValueError, match=r"parameters\['heavy'\]: found an array of float64, shape \(2,\); the system was"):
        da.ensemble(falling, [0.0], [0.0], parameters={"heavy": [1.0, 0.0]}, h=0.1, steps=10)
