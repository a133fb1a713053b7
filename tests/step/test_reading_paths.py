"""What a user reads of a path or a solution: coordinates by name, paths of a batch, tables in notebooks; and what is said of
arguments that do not exist."""

from __future__ import annotations

from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da


def lagrangian(q, v):
    return 0.5 * v @ v + jnp.cos(q[0]) - 0.5 * q[1] ** 2


@pytest.fixture(scope="module")
def system():
    return da.System(lagrangian, coordinates=("θ", "x"))


@pytest.fixture(scope="module")
def path(system):
    return da.simulate(system, [1.0, 0.5], [0.0, 0.2], h=0.1, steps=20)


@pytest.fixture(scope="module")
def batch(system):
    return da.ensemble(system, q0=np.array([[1.0, 0.5], [0.2, 0.1], [0.0, 0.3]]), v0=np.zeros((3, 2)), h=0.1, steps=5)


def test_a_coordinate_by_its_name(path, batch):
    np.testing.assert_array_equal(path["x"], path.q[:, 1])
    np.testing.assert_array_equal(batch["θ"], batch.q[:, :, 0])
    with pytest.raises(KeyError, match="'y': the coordinates of the path are 'θ', 'x'"):
        path["y"]


def test_without_names_the_message_says_where_to_give_them():
    path = da.simulate(da.System(lagrangian), [1.0, 0.5], [0.0, 0.2], h=0.1, steps=2)
    with pytest.raises(KeyError, match="has no names of coordinates; build the system with coordinates="):
        path["x"]


def test_paths_of_a_batch(path, batch):
    assert len(batch) == 3
    np.testing.assert_array_equal(batch[-1].q, batch.q[2])
    assert [len(one.t) for one in batch] == [6, 6, 6]
    with pytest.raises(TypeError, match="this is a single path"):
        len(path)
    assert path  # a single path without a length is something
    with pytest.raises(ValueError, match="i: found 3"):
        batch[3]


def test_the_labelled_data_set_of_a_method_is_that_of_the_function(path):
    assert path.to_xarray().identical(da.store.to_xarray(path))


class Table(HTMLParser):
    """Rows of cells."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        if self.rows:
            self.rows[-1].append(data)


def test_a_notebook_shows_what_describe_says(path):
    rows = Table(path._repr_html_()).rows
    assert ["outcome", "success: all steps were solved"] in rows
    assert [": ".join(row) for row in rows] == path.describe().splitlines()


def test_print_says_in_words_how_a_run_ended_and_what_was_measured(system, path):
    assert (
        f"{path.outcome}, {path.outcome!s}, {path.outcome:d}, {path.outcome!r}"
        == "success, success, 0, <Outcome.SUCCESS: 0>"
    )
    assert str(path) == path.describe()
    energy = da.measure.energy(system, path)
    assert str(energy) == energy.describe()
    assert str(energy).startswith("first ")

    def look(q):
        traced = da.simulate(system, q, [0.0, 0.2], h=0.1, steps=4)
        assert str(traced) == repr(traced)
        assert str(da.measure.energy(system, traced)).startswith("Invariant(")
        return traced.q[-1]

    jax.jit(look)(jnp.array([1.0, 0.5]))


def test_the_table_of_orders_keeps_its_columns(system):
    order = da.measure.order(system, [1.0, 0.5], [0.0, 0.2], time=0.4, h=[0.1, 0.05, 0.025])
    cells = [cell for row in Table(order._repr_html_()).rows for cell in row]
    assert [line for line in order.describe().splitlines() if line.startswith("  ")] == [
        x for x in cells if x.startswith("  ")
    ]


def test_what_a_user_wrote_is_text_and_no_markup():
    from dalembert.notebook import card

    table = Table(card("<script>", "name: <b>1</b>\n  <i>2</i>"))
    assert table.tags == {"div", "strong", "table", "tr", "th", "td"}


MEANT = {
    "T": "steps=round(T / h)",
    "dt": "the step is h=",
    "step": "h= is the length of a step",
    "save_evry": "did you mean save=?",
    "zzz": "there are feedback, h, progress",
}


@pytest.mark.parametrize(("name", "message"), MEANT.items())
def test_an_unknown_argument_says_what_was_meant(system, name, message):
    with pytest.raises(TypeError, match=f"{name}: simulate has no such argument; .*") as caught:
        da.simulate(system, [1.0, 0.5], [0.0, 0.2], **{name: 1})
    assert message in str(caught.value)


def test_a_constraint_of_a_lower_order_than_its_class():
    on_line = da.System(lagrangian, da.Nonholonomic(lambda q, v: q[0] - q[1]))
    with pytest.raises(ValueError, match=r"constraints\[0\] \(Nonholonomic\) phi: does not read v; .* Holonomic\(phi\)"):
        da.simulate(on_line, [0.5, 0.5], [0.2, 0.2], h=0.1, steps=2)
    blade = da.System(
        lagrangian, da.SecondOrder(lambda q, v, a: v[0] - v[1], reactions=lambda q, v, a: jnp.array([1.0, -1.0]))
    )
    with pytest.raises(ValueError, match=r"\(SecondOrder\) phi: does not read a; .* Nonholonomic\(phi\)"):
        da.simulate(blade, [0.5, 0.5], [0.2, 0.2], h=0.1, steps=2)


def test_rotations_of_scipy_are_told_to_give_quaternions_with_the_scalar_first():
    from scipy.spatial.transform import Rotation

    with pytest.raises(TypeError, match=r"as_quat\(scalar_first=True\)"):
        da.spline(da.manifolds.sphere(), {0.0: Rotation.identity(), 1.0: Rotation.identity()}, steps=4)


def test_a_warning_points_at_the_line_of_the_user(system):
    with pytest.warns(UserWarning, match="the velocity turned") as caught:
        da.simulate(da.System(lambda q, v: 0.5 * v @ v - 50.0 * q @ q), [1.0], [0.0], h=2.0, steps=20)
    assert caught[0].filename == __file__


def test_a_solution_keeps_the_names_also_in_a_file(tmp_path):
    beam = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2, coordinates=("w",))
    solution = da.solve(beam, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=10)
    np.testing.assert_array_equal(solution["w"], solution.q[:, 0])
    da.save(solution, tmp_path / "beam.nc")
    loaded = da.load(tmp_path / "beam.nc")
    assert loaded.coordinates == ("w",)
    assert list(loaded.to_xarray().coordinate.values) == ["w"]
