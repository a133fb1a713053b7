"""Arrays packed by name: each number where the packing says, and no name that is missing, unknown or of another shape."""

import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.native import Packing

PACKING = Packing.of({"q": 2, "history": (2, 3), "h": ()})


def test_numbers_stand_one_after_the_other_in_the_order_of_the_packing():
    found = PACKING.pack(h=9.0, history=[[3, 4, 5], [6, 7, 8]], q=[1, 2])
    assert found.dtype == np.float64
    assert found.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert (PACKING.size, PACKING.offset("history"), PACKING.fields["history"].length) == (9, 2, 6)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
def test_what_is_packed_comes_back(xp, lead):
    random = np.random.default_rng(0)
    named = {name: random.standard_normal((*lead, *field.shape)) for name, field in PACKING.fields.items()}
    found = PACKING.unpack(xp.asarray(PACKING.pack(**named)))
    assert found.keys() == named.keys()
    for name, value in named.items():
        assert found[name].shape == value.shape
        assert np.array_equal(found[name], value)


def test_parts_are_views_into_the_array():
    array = np.zeros(9)
    PACKING.unpack(array)["history"][1, 2] = 1.0
    assert array[7] == 1.0


def test_integers_keep_all_their_bits():
    address = 2**62 + 1
    assert Packing.words("count", "at").pack(at=address, count=3).tolist() == [3, address]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"q": [1, 2], "h": 1.0}, TypeError, "missing are history; unknown are none"),
        ({"q": [1, 2], "h": 1.0, "history": np.ones((2, 3)), "Q": 1}, TypeError, "missing are none; unknown are Q"),
        ({"q": [1, 2, 3], "h": 1.0, "history": np.ones((2, 3))}, ValueError, r"q: found shape \(3,\), expected \(2,\)"),
        ({"q": [1, 2], "h": 1.0, "history": np.ones(6)}, ValueError, r"history: found shape \(6,\)"),
        (
            {"q": np.ones((4, 2)), "h": 1.0, "history": np.ones((4, 2, 3))},
            ValueError,
            r"h: found shape \(\), expected \(4,\)",
        ),
        ({"q": [1j, 2], "h": 1.0, "history": np.ones((2, 3))}, TypeError, "q: found complex128, expected float64"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        PACKING.pack(**given)


def test_no_number_is_rounded_into_a_word():
    with pytest.raises(TypeError, match="count: found float64, expected int64"):
        Packing.words("count").pack(count=1.5)


def test_arrays_of_another_length_and_names_twice_are_refused():
    with pytest.raises(ValueError, match=r"array: found shape \(8,\), expected \(…, 9\)"):
        PACKING.unpack(np.zeros(8))
    with pytest.raises(ValueError, match="'q' stands there twice"):
        Packing.words("q", "q").fields
