"""A stored path comes back bit for bit, on labelled dimensions that keep the time levels apart."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.path import Statistics

PENDULUM = ENTRIES["pendulum"]
PARTICLE = ENTRIES["curvature_particle"]
SKATER = ENTRIES["nonholonomic_particle"]


def same(a, b) -> bool:
    """Equal structure, static fields, types and bits."""
    left, right = jax.tree.flatten(a), jax.tree.flatten(b)
    arrays = [[np.asarray(x) for x in leaves] for leaves, _ in (left, right)]
    bits = [(x.dtype, x.shape, x.tobytes()) for x in arrays[0]] == [(x.dtype, x.shape, x.tobytes()) for x in arrays[1]]
    return left[1] == right[1] and bits


def two_rods():
    """Two multipliers: a double pendulum in Cartesian coordinates."""
    rods = da.Holonomic(lambda q: jnp.array([q[:2] @ q[:2] - 1, (q[2:] - q[:2]) @ (q[2:] - q[:2]) - 1]))
    return da.System(lambda q, v: 0.5 * v @ v - q[1] - q[3], rods, coordinates=("x1", "y1", "x2", "y2"))


def lost():
    """a + a² = -y: without a real root once y exceeds ¼."""
    phi = lambda q, v, a: a[0] ** 2 + a[0] + q[1]  # noqa: E731
    return da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(phi, reactions=lambda q, v, a: jnp.array([1.0, 0.0])))


def extremes(value, t, q, v, multipliers):
    lowest, (count, _) = value["lowest"], value["more"]
    return {"lowest": jnp.minimum(lowest, q), "more": (count + 1, [t])}


MAKERS = {
    "without multipliers": lambda: da.simulate(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, h=0.1, steps=7),
    "two multipliers": lambda: da.simulate(two_rods(), [0.0, -1, 1, -1], np.zeros(4), h=0.01, steps=5),
    "nodes": lambda: da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=0.1, steps=6, scheme=da.Scheme("nodes")),
    "thinned": lambda: da.simulate(SKATER.system, SKATER.q0, SKATER.v0, h=0.1, steps=23, save=da.Save(every=5)),
    "last only": lambda: da.simulate(SKATER.system, SKATER.q0, SKATER.v0, h=0.1, steps=9, save=da.Save(every=None)),
    "failed": lambda: da.simulate(lost(), [0.0, 0.0], [1.0, 1.0], h=0.05, steps=30, throw=False),
    "failed at once": lambda: da.simulate(
        PENDULUM.system, PENDULUM.q0, PENDULUM.v0, h=0.1, steps=5, stop=da.Stop(domain=lambda q, v, p: q[0] > 2), throw=False
    ),
    "feedback and reducer": lambda: da.simulate(
        PENDULUM.system,
        PENDULUM.q0,
        PENDULUM.v0,
        h=0.1,
        steps=8,
        feedback=da.SampledFeedback(lambda q, v, p: -v, every=2),
        save=da.Save(reduce=(extremes, {"lowest": jnp.array([9.0]), "more": (0, [0.0])})),
    ),
    "lanes": lambda: jax.vmap(lambda k: da.simulate(PARTICLE.system.replace(k=k), [0.0, 0.0], [1.0, 1.0], h=0.1, steps=4))(
        jnp.array([0.5, 1.0, 2.0])
    ),
    "ensemble": lambda: da.ensemble(PENDULUM.system, jnp.array([[0.1], [0.2]]), jnp.zeros((2, 1)), h=0.1, steps=4),
    "free steps": lambda: da.step.simulate_free_steps(
        da.VariationalProblem(lambda q, v: 0.5 * v @ v + jnp.cos(q[0])), [[0.0], [0.1]], [0.0, 0.1], steps=3
    ),
}
PATHS = {name: functools.cache(make) for name, make in MAKERS.items()}


@pytest.mark.parametrize("make", PATHS.values(), ids=PATHS.keys())
def test_a_round_trip_changes_no_bit(make, tmp_path):
    path = make()
    da.save(path, tmp_path / "run.nc")
    assert same(da.load(tmp_path / "run.nc"), path)
    assert same(da.store.from_xarray(da.store.to_xarray(path)), path)
    assert [x.name for x in tmp_path.iterdir()] == ["run.nc"]


def test_values_that_are_not_finite_keep_their_bits(tmp_path):
    path = PATHS["without multipliers"]()
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308, 0.1])
    path = dataclasses.replace(path, q=jnp.asarray(odd)[:, None])
    da.save(path, tmp_path / "run.nc")
    assert np.asarray(da.load(tmp_path / "run.nc").q).tobytes() == odd.tobytes()


def test_every_level_has_its_own_dimension_and_times():
    data = da.store.to_xarray(PATHS["thinned"]())
    assert data.q.dims == data.v.dims == ("time", "coordinate")
    assert data.multipliers.dims == ("time_mid", "multiplier")
    np.testing.assert_allclose(data.time, [0, 0.5, 1, 1.5, 2, 2.3])
    np.testing.assert_allclose(data.time_mid, [0.45, 0.95, 1.45, 1.95, 2.25])
    nodes = da.store.to_xarray(PATHS["nodes"]())
    assert [nodes[x].dims[0] for x in ("q", "v", "multipliers")] == ["time", "time_mid", "time_interior"]
    np.testing.assert_allclose(nodes.time_mid, 0.1 * (np.arange(6) + 0.5))
    np.testing.assert_allclose(nodes.time_interior, 0.1 * np.arange(1, 6))


FIRST_NAMES = {
    "time": "node", "time_mid": "mid", "time_interior": "interior", "time_held": "held", "time_velocity": "node_velocity",
    "time_multipliers": "node_multipliers", "last_time": "last_node", "last_time_mid": "last_mid", "t": "t_node",
}  # fmt: skip
FIRST_NAMES_OF_SOLUTIONS = {"time": "node", "t": "t_node", "time_mid": "window", "t_mid": "t_window"}


def as_first_format(data):
    """The data set as version 0.1 wrote it."""
    names = FIRST_NAMES_OF_SOLUTIONS if "solution" in data.attrs.get("content", "") else FIRST_NAMES
    there = {*data.variables, *data.dims}
    return data.rename({now: then for now, then in names.items() if now in there}).assign_attrs(dalembert_format=1)


@pytest.mark.parametrize("make", PATHS.values(), ids=PATHS.keys())
def test_paths_of_the_first_format_are_read(make):
    path = make()
    assert same(da.store.from_xarray(as_first_format(da.store.to_xarray(path))), path)


def test_studies_of_the_first_format_are_read():
    inside = lambda q, v, p: q < 0.55  # noqa: E731
    task = da.OptimalControl(
        da.System(lambda q, v: 0.5 * v @ v, coordinates=("x",)), cost=lambda q, v, u: u @ u, actuated="x"
    )
    runs = da.sweep(
        da.System(lambda q, v, p: 0.5 * p["m"] * v @ v, coordinates=("x",), parameters={"m": 1.0}), {"m": [1.0, 2.0]},
        {"q0": [0.0], "v0": [1.0], "h": 0.1, "steps": 9, "save": da.Save(every=2), "stop": da.Stop(domain=inside)},
    )  # fmt: skip
    ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "steps": 4}
    for study, names in (
        (runs, {"node", "mid", "last_node", "last_mid"}),
        (da.sweep(task, {"T": [1.0, 2.0]}, ends, threads=1), {"node", "t_node"}),
    ):
        earlier = as_first_format(study.data)
        assert names <= {*earlier.variables, *earlier.dims}
        read = da.store.from_xarray(earlier)
        xr.testing.assert_identical(read.data, study.data)
        for one, other in zip(read, study, strict=True):
            np.testing.assert_array_equal(one.q, other.q)


def test_swept_names_and_parameters_do_not_take_those_of_times():
    free = da.System(
        lambda q, v, p: 0.5 * p["time"] * p["t"] * v @ v, coordinates=("x",), parameters={"time": 1.0, "t": 2.0}
    )
    study = da.sweep(free, {"time": [1.0, 2.0], "t": [3.0]}, {"q0": [0.0], "v0": [1.0], "h": 0.1, "steps": 3})
    assert study.data.q.dims == ("swept_time", "t", "time", "coordinate")
    assert study.sel(time=2.0, t=3.0).t[-1] == pytest.approx(0.3, rel=1e-15)
    runs = da.ensemble(free, [0.0], [1.0], parameters={"time": [1.0, 2.0], "t": [3.0, 4.0]}, h=0.1, steps=3)
    data = runs.to_xarray()
    assert data.parameter_time.values.tolist() == [1.0, 2.0]
    assert data.parameter_t.values.tolist() == [3.0, 4.0]
    assert same(da.store.from_xarray(data), runs)


def test_equal_level_names_with_other_times_do_not_share_a_dimension():
    path = dataclasses.replace(PATHS["nodes"](), levels=("node", "node"))
    data = da.store.to_xarray(path)
    assert [data[x].dims[0] for x in ("q", "v", "multipliers")] == ["time", "time_velocity", "time_multipliers"]
    assert same(da.store.from_xarray(data), path)


def test_components_are_selected_by_name_and_time():
    path = PATHS["thinned"]()
    data = da.store.to_xarray(path)
    assert list(data.coordinate.values) == ["x", "y", "z"]
    assert float(data.q.sel(coordinate="y").sel(time=1.4, method="nearest")) == float(path.q[3, 1])
    assert data.q.attrs["long_name"] == "position"
    assert all("units" in data[name].attrs for name in ("q", "v", "multipliers", "constraint_forces", "h"))


def test_lanes_keep_their_own_times():
    data = da.store.to_xarray(PATHS["lanes"]())
    assert data.q.dims == ("lane", "time", "coordinate")
    assert data.t_mid.dims == ("lane", "time_mid")
    assert list(data.coordinate.values) == ["q0", "q1"]


def test_what_is_needed_to_run_again_is_an_attribute(tmp_path):
    path = PATHS["failed"]()
    da.save(path, tmp_path / "run.nc")
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as data:
        assert path.outcome.failed
        assert data.attrs["outcome"] == path.outcome.name.lower()
        assert data.attrs["outcome_message"] == path.outcome.message
        assert data.attrs["source_hash"] == path.provenance.source_hash
        assert data.attrs["parameters"] == path.provenance.parameters
        assert '"steps": 30' in data.attrs["run"]
        assert "Scheme(" in data.attrs["scheme"]
        assert int(data.failed_step) == int(path.statistics.failed_step) == path.steps
        assert set(vars(Statistics)["__annotations__"]) <= set(data.data_vars)


def test_a_path_is_recognised_by_the_source_of_its_system(tmp_path):
    path = PATHS["thinned"]()
    da.save(path, tmp_path / "run.nc")
    assert da.matches(tmp_path / "run.nc", SKATER.system)
    assert da.matches(path, SKATER.system.replace(c=2.0))
    assert not da.matches(path, PENDULUM.system)
    with pytest.raises(ValueError, match="no provenance"):
        da.matches(PATHS["lanes"](), PARTICLE.system)


def test_a_failed_save_keeps_the_file_that_was_there(tmp_path):
    good = PATHS["failed at once"]()
    da.save(good, tmp_path / "run.nc")
    with pytest.raises(TypeError, match="reduced holds values of type complex128"):
        da.save(dataclasses.replace(good, reduced=jnp.array(1j)), tmp_path / "run.nc")
    assert same(da.load(tmp_path / "run.nc"), good)


def test_mistakes_are_named(tmp_path):
    path = PATHS["failed at once"]()
    with pytest.raises(TypeError, match="path: found dict"):
        da.save({}, tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"ends in \.nc"):
        da.save(path, tmp_path / "run.txt")
    with pytest.raises(FileNotFoundError, match=r"file: the folder .* does not exist"):
        da.save(path, tmp_path / "no" / "run.nc")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        da.load(tmp_path / "run.nc")
    (tmp_path / "text.nc").write_text("t x\n0 1\n")
    with pytest.raises(ValueError, match="cannot be read as a NetCDF file"):
        da.load(tmp_path / "text.nc")
    xr.Dataset({"q": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"not written by dalembert\.save"):
        da.load(tmp_path / "other.nc")
    newer = da.store.to_xarray(path).assign_attrs(dalembert_format=99)
    with pytest.raises(ValueError, match="format 99"):
        da.store.from_xarray(newer)


def test_a_traced_path_is_refused():
    def traced(x):
        da.store.to_xarray(da.simulate(PENDULUM.system, [x], [0.0], h=0.1, steps=2))
        return x

    with pytest.raises(ValueError, match="path: is traced"):
        jax.jit(traced)(1.0)


def solved(given: dict, constraints=(), **options):
    problem = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + jnp.cos(q[0]) * v[1], constraints, derivatives=2)
    return da.solve(problem, **given, T=1.0, steps=6, throw=False, **options)


SOLUTIONS = {
    "momenta": lambda: solved({"initial": ([0.0, 0.1], [0.3, 0.0]), "final": ([1.0, 1.0],)}, scheme=da.Hermite()),
    "nodes and multipliers": lambda: solved(
        {"initial": da.Nodes([[0.0, 0.0], [0.1, 0.0]]), "final": ([1.0, 0.0],)}, lambda q, v, a: a[1] - v[0] * q[1]
    ),
    "holonomic, not certified": lambda: solved(
        {"initial": ([1.0, 0.0],), "final": ([0.0, 1.0],)}, da.Holonomic(lambda q: q @ q - 1), certify=False
    ),
    "infeasible": lambda: solved({"initial": ([0.0, 0.0],), "final": ([1.0, 1.0],)}, da.Nonholonomic(lambda q, v: v[0])),
}


@pytest.mark.parametrize("make", SOLUTIONS.values(), ids=SOLUTIONS.keys())
def test_a_round_trip_of_a_solution_changes_no_bit(make, tmp_path):
    solution = make()
    da.save(solution, tmp_path / "solution.nc")
    found = da.load(tmp_path / "solution.nc")
    assert same(found, solution)
    assert (found.kind, found.describe()) == (solution.kind, solution.describe())
    data = da.store.to_xarray(solution)
    assert data.q.dims == ("time", "coordinate")
    assert data.jets.dims == ("time_mid", "derivative", "coordinate")
    assert data.attrs["kind"] == solution.kind
    assert data.attrs["outcome"] == solution.outcome.name.lower()


def test_what_a_solution_has_not_is_named():
    solution = SOLUTIONS["momenta"]()
    with pytest.raises(ValueError, match="is a solution"):
        da.matches(solution, PENDULUM.system)
    with pytest.raises(ValueError, match="holds a batch"):
        da.store.to_xarray(jax.tree.map(lambda x: jnp.stack([x, x]), solution))


def test_runs_of_an_ensemble_have_their_parameters_as_labels(tmp_path):
    """Numbers and arrays, and first states; and a file of them is read as before."""
    system = da.System(
        lambda q, v, p: 0.5 * p["m"] * v @ v - p["k"][0] * q @ q, coordinates=("x",),
        parameters={"m": 1.0, "k": np.ones(2), "h": 1.0},
    )  # fmt: skip
    given = {"m": np.array([1.0, 2.0, 3.0]), "k": np.ones((3, 2)), "h": np.array([4.0, 5.0, 6.0])}
    runs = da.ensemble(system, [[1.0], [2.0], [3.0]], [0.5], h=0.1, steps=3, parameters=given)
    data = runs.to_xarray()
    assert data.k.dims == ("lane", "k_0")
    assert data.parameter_h.values.tolist() == [4.0, 5.0, 6.0]
    assert data.swap_dims(lane="m").sel(m=2.0).q0.values.tolist() == [2.0]
    np.testing.assert_array_equal(data.swap_dims(lane="m").sel(m=3.0).q, runs.lane(2).q)
    da.save(runs, tmp_path / "runs.nc")
    assert np.array_equal(da.load(tmp_path / "runs.nc").q, runs.q)


def test_forces_that_do_not_exist_are_not_stored(tmp_path):
    free = da.simulate(da.System(lambda q, v: 0.5 * v @ v), [0.0, 1.0], [1.0, 0.0], h=0.1, steps=5)
    assert "constraint_forces" not in da.store.to_xarray(free)
    da.save(free, tmp_path / "free.nc")
    np.testing.assert_array_equal(da.load(tmp_path / "free.nc").constraint_forces, np.zeros((5, 2)))


def test_forces_of_many_runs_that_do_not_exist_are_not_stored(tmp_path):
    free = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v, parameters={"m": 1.0}, coordinates=("x", "y"))
    given = {"q0": [0.0, 1.0], "v0": [1.0, 0.0], "h": 0.1, "steps": 5}
    runs = da.ensemble(free, given["q0"], given["v0"], parameters={"m": [1.0, 2.0, 3.0]}, h=0.1, steps=5)
    assert "constraint_forces" not in da.store.to_xarray(runs)
    da.save(runs, tmp_path / "runs.nc")
    np.testing.assert_array_equal(da.load(tmp_path / "runs.nc").constraint_forces, np.zeros((3, 5, 2)))
    earlier = da.store.to_xarray(runs).assign(constraint_forces=(("lane", "time_mid", "coordinate"), np.zeros((3, 5, 2))))
    np.testing.assert_array_equal(da.store.from_xarray(earlier).q, runs.q)
    whole = da.sweep(free, {"m": [1.0, 2.0, 3.0]}, given)
    stored = da.sweep(free, {"m": [1.0, 2.0, 3.0]}, given, store=tmp_path / "runs.zarr", block=2)
    for study in (whole, stored, da.load(tmp_path / "runs.zarr")):
        assert not [name for name in study.data if "constraint_forces" in name]
        np.testing.assert_array_equal(study.sel(m=2.0).constraint_forces, np.zeros((5, 2)))
