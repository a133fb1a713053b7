"""The command line: what it prints and writes, and its exit codes: 0, 1 for a run that fails, 2 for bad input."""

import errno
import json
import os
import re
import tempfile

import matplotlib.image
import numpy as np
import pytest
from typer.testing import CliRunner

import dalembert as da
from dalembert import step
from dalembert.cli import app
from dalembert.gallery import ENTRIES, PROBLEMS

USER_FILE = """
import jax.numpy as jnp
import dalembert as da
from dalembert.gallery import Entry

falling = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v - p["m"] * p["g"] @ q, parameters={"m": 1.0, "g": [0.0, 9.81]})
entry = Entry("throw", "Throw", "L", "none", falling, (0.0, 0.0), (1.0, 2.0), 0.1, 1.0)
lost = da.System(
    lambda q, v: 0.5 * v @ v,
    da.SecondOrder(lambda q, v, a: a[0] ** 2 + a[0] + q[1], reactions=lambda q, v, a: jnp.array([1.0, 0.0])),
)
nodes = da.Scheme("nodes")
number = 3
dated = Entry("dated", "Dated", "L", "none", falling, ("2020-01-01", 0.0), (1.0, 2.0), 0.1, 1.0)
slow = Entry("slow", "Slow", "L", "none", falling, (0.0, 0.0), (1.0, 2.0), "0.1", 1.0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(USER_FILE)
    (tmp_path / "folder.nc").mkdir()
    (tmp_path / "broken.py").write_text("import no_such_module")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def test_list_shows_every_system_with_formula_and_source():
    output = call("list")
    for entry in (*ENTRIES.values(), *PROBLEMS.values()):
        assert entry.name in output
        assert entry.formula in output
        assert entry.source in output


def test_list_shows_the_systems_of_a_file_with_the_words_that_run_them(folder):
    output = call("list", "mine.py")
    for name in ("entry", "lost"):
        assert f"mine.py:{name} " in output
    assert "mine.py:nodes" not in output
    assert "mine.py:falling" not in output  # which is part of the entries
    assert "g = 0 9.81" in output
    record = json.loads(call("list", "mine.py", "--json"))
    assert {x["name"] for x in record["systems"]} >= {"mine.py:lost", "mine.py:entry"}


def test_run_takes_data_parameters_and_writes_path_and_figure(folder):
    output = call("run", "pendulum", "--set", "g_over_l=2", "--q0", "0.5", "--v0", "-1", "--h", "0.1", "--time", "2",
                  "--save", "run.nc", "--plot", "run.png")  # fmt: skip
    assert "20 steps of h = 0.1" in output
    assert "success" in output
    path = da.load("run.nc")
    system = ENTRIES["pendulum"].system.replace(g_over_l=2)
    wanted = da.simulate(system, [0.5], [-1.0], h=0.1, steps=20)
    np.testing.assert_array_equal(path.q, wanted.q)
    assert da.matches(path, system)
    assert matplotlib.image.imread("run.png").shape[0] > 200


def test_run_takes_its_data_from_the_gallery():
    assert "1000 steps of h = 0.05" in call("run", "pendulum")


def test_a_file_brings_a_system_an_entry_or_a_scheme(folder):
    words = ["--q0", "0,0", "--v0", "1,2", "--h", "0.1", "--steps", "4", "--set", "g=0,1.62", "--save-every", "2"]
    call("run", "mine.py:falling", *words, "--scheme", "mine.py:nodes", "--save", "run.nc")
    path = da.load("run.nc")
    np.testing.assert_allclose(path.t, [0, 0.2, 0.4], rtol=0, atol=1e-14)
    np.testing.assert_allclose(path.q[-1], [0.4, 0.8 - 0.81 * 0.16], rtol=1e-12)
    assert "mine:" in path.provenance.system
    assert 'p["g"] @ q' in path.provenance.source
    assert "10 steps" in call("run", "mine.py:entry")


def test_a_run_that_fails_says_where_keeps_the_path_and_exits_1(folder):
    words = ["--q0", "0,0", "--v0", "1,1", "--h", "0.02", "--steps", "100", "--save", "lost.nc", "--plot", "lost.png"]
    output = call("run", "mine.py:lost", *words, code=1)
    path = da.load("lost.nc")
    assert path.outcome.failed
    assert path.steps in (12, 13)
    time = rf"{path.steps * 0.02:g}"
    assert re.search(rf"failed at step {path.steps}, t = {time}, scaled residual \d", output)
    assert (folder / "lost.png").exists()


@pytest.mark.parametrize("branch", ["nearest-prediction", "nearest-previous:0"])
def test_branches_have_names(branch):
    assert "success" in call("run", "pendulum", "--steps", 3, "--branch", branch)


def test_back_ends_are_asked_for_by_name(folder):
    for backend in ("native", "jax"):
        assert "success" in call("run", "pendulum", "--steps", 50, "--backend", backend, "--save", f"{backend}.nc")
    native, portable = (da.load(f"{backend}.nc") for backend in ("native", "jax"))
    np.testing.assert_allclose(native.q, portable.q, rtol=1e-12)


def test_order_prints_a_table_of_errors_and_orders():
    output = call("check", "pendulum", "--h", 0.1, "--h", 0.05, "--h", 0.025, "--time", 2, "--coordinates", "θ")
    assert len(re.findall(r"fitted", output)) == 6
    slopes = [float(x) for x in re.findall(r"slope (\S+)", output)]
    assert slopes == pytest.approx([2, 2], abs=0.05)


def test_a_finished_file_is_replaced_with_force_only(folder):
    """Path and figure, of run and of solve; the refusal comes before the run."""
    words = {"run": ["run", "pendulum", "--steps", 5], "solve": ["solve", "minimum_jerk", "--steps", 10]}
    for name, command in words.items():
        call(*command, "--save", f"{name}.nc", "--plot", f"{name}.png")
        old = {x.name: x.read_bytes() for x in folder.glob(f"{name}.*")}
        assert len(old) == 2
        for option, file in (("--save", f"{name}.nc"), ("--plot", f"{name}.png")):
            refused = call(*command, option, file, code=2)
            assert refused == f"dalembert: {option}: {file} exists; --force replaces it, or give another name\n"
        assert {x.name: x.read_bytes() for x in folder.glob(f"{name}.*")} == old
    before = (folder / "run.png").stat().st_ino
    call("run", "pendulum", "--steps", 7, "--save", "run.nc", "--plot", "run.png", "--force")
    assert da.load("run.nc").steps == 7
    assert (folder / "run.png").stat().st_ino != before
    assert matplotlib.image.imread("run.png").shape[0] > 200
    assert not list(folder.glob(".dalembert*"))


def test_a_store_is_replaced_with_force_only_and_never_what_is_none(folder):
    command = ["run", "pendulum", "--save", "run.zarr"]
    call(*command, "--steps", 5)
    assert "store: exists" in call(*command, "--steps", 6, code=2)
    assert da.load("run.zarr").steps == 5
    call(*command, "--steps", 7, "--force")
    assert da.load("run.zarr").steps == 7
    (folder / "mine.zarr").mkdir()
    call("run", "pendulum", "--save", "mine.zarr", "--force", code=2)
    assert (folder / "mine.zarr").is_dir()
    assert not list(folder.glob(".dalembert*"))


def test_a_file_that_appears_during_the_run_is_kept_and_so_is_the_run(folder, monkeypatch):
    def slow(*arguments, **options):
        path = da.simulate(*arguments, **options)
        (folder / "run.nc").write_text("finished by another")
        return path

    monkeypatch.setattr(step, "simulate", slow)
    output = call("run", "pendulum", "--steps", 5, "--save", "run.nc", code=2)
    assert "--save: run.nc was written by another program during the run and is kept; this is run-2.nc" in output
    assert (folder / "run.nc").read_text() == "finished by another"
    assert da.load("run-2.nc").steps == 5
    call("run", "pendulum", "--steps", 6, "--save", "run.nc", "--force")
    assert da.load("run.nc").steps == 6


def test_a_run_that_cannot_be_stored_where_it_should_be_is_stored_elsewhere(folder, monkeypatch):
    full = [OSError(errno.ENOSPC, "No space left on device")]

    def reserve(*_):
        if full:
            raise full.pop()

    monkeypatch.setattr(os, "posix_fallocate", reserve)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    output = call("run", "pendulum", "--steps", 5, "--save", "run.nc", code=2)
    assert "No space left on device" in output
    refuge = re.search(r"It is in (\S+) instead", output).group(1)
    assert da.load(refuge).steps == 5
    assert not (folder / "run.nc").exists()
    full += [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.ENOSPC, "No space left here either")]
    assert "left here either" in call("run", "pendulum", "--steps", 5, "--save", "run.nc", code=2)


def test_a_folder_that_cannot_be_written_is_said_before_the_run(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # what it says of such a folder, but not to root
    assert "--save: the folder . cannot be written to" in call("run", "pendulum", "--save", "run.nc", code=2)


BAD = {
    "unknown system": (["run", "pendulumm"], "did you mean pendulum? There are ball_on_turntable, car_with_trailers"),
    "unknown parameter": (["run", "pendulum", "--set", "l=2"], "the parameters are g_over_l"),
    "parameter without value": (["run", "pendulum", "--set", "g_over_l"], "give name=value"),
    "no number": (["run", "pendulum", "--q0", "one"], "--q0: found 'one'"),
    "wrong length": (["run", "pendulum", "--q0", "1,2"], "dalembert: q0: found 2 numbers; the system has 1 coordinate, θ"),
    "a step of length 0": (["run", "pendulum", "--h", "0"], "h: found 0"),
    "steps and time": (["run", "pendulum", "--steps", "3", "--time", "1"], "give one of them"),
    "no multiple of h": (
        ["run", "pendulum", "--h", "0.3", "--time", "1"],
        "--time: found 1, which is 3.333333333 steps of h = 0.3 and no whole number of them; give a multiple of h, such as "
        "0.9 or 1.2, or --steps",
    ),
    "no multiple of the gallery's h": (["page", "pendulum", "--time", "0.33", "--output", "x.html"], "such as 0.3 or 0.35"),
    "solve a system": (["solve", "pendulum"], "is a system and not a boundary problem; dalembert run pendulum runs"),
    "infinite time": (["run", "pendulum", "--time", "inf"], "--time: found inf"),
    "scheme": (["run", "pendulum", "--scheme", "euler"], "--scheme: found euler; there are default"),
    "starter": (["run", "pendulum", "--starter", "third"], "starter: found 'third'"),
    "branch": (["run", "pendulum", "--branch", "left"], "--branch: found left"),
    "backend": (["run", "pendulum", "--backend", "fortran"], "--backend: found 'fortran'; there are native, jax"),
    "inconsistent data": (["run", "nonholonomic_particle", "--v0", "0,0,1"], "dalembert.project"),
    "folder": (["run", "pendulum", "--save", "no/run.nc"], "--save: the folder no does not exist"),
    "a folder": (["run", "pendulum", "--save", "folder.nc", "--force"], "not written (it is a folder)"),
    "ending": (["run", "pendulum", "--plot", "run.doc"], "--plot: found run.doc"),
    "no file": (["run", "none.py:system"], "none.py: no such file"),
    "no name": (["run", "mine.py"], "give the file and the name in it"),
    "unknown name": (["run", "mine.py:rising"], "mine.py: defines no rising"),
    "misspelt name": (["run", "mine.py:fallin"], "mine.py: defines no fallin; did you mean falling?"),
    "no system": (["run", "mine.py:number"], "found int; a System"),
    "broken file": (["run", "broken.py:system"], "broken.py: ModuleNotFoundError: No module named"),
    "no data": (["run", "mine.py:falling", "--h", "0.1", "--steps", "1"], "--q0, --v0 are needed"),
    "no step": (["run", "mine.py:falling", "--q0", "0,0", "--v0", "0,0"], "--h is needed"),
    "no length": (["run", "mine.py:falling", "--q0", "0,0", "--v0", "0,0", "--h", "1"], "--steps or --time is needed"),
    "no scheme": (["run", "pendulum", "--scheme", "mine.py:number"], "a Scheme is needed"),
    "steps of order": (["check", "pendulum", "--h", "0.1", "--h", "0.07", "--time", "2"], "not a multiple"),
    "huge number of steps": (
        ["run", "pendulum", "--steps", str(2**63)],
        f"steps: found {2**63}; give a whole number, from 1",
    ),
    "no steps": (["run", "pendulum", "--steps", "0"], "steps: found 0; give a whole number, 1 or more"),
    "states": (["run", "pendulum", "--steps", str(2**53)], "too many states to keep with save=Save(every=1)"),
    "tiny step": (["run", "pendulum", "--h", "1e-300"], "--time, --h: found 50 and 1e-300, which are 5e+301 steps"),
    "endless steps": (["run", "pendulum", "--time", "1e300", "--h", "1e-300"], "which are inf steps"),
    "nan step": (["run", "pendulum", "--h", "nan"], "--h: found nan"),
    "save every": (["run", "pendulum", "--save-every", "0"], "every: found 0; give a whole number"),
    "nan": (["run", "pendulum", "--q0", "nan"], "q0: found nan at index 0"),
    "complex": (["run", "pendulum", "--v0", "1j"], "--v0: found '1j'; give numbers"),
    "empty": (["run", "pendulum", "--q0", ""], "--q0: found ''"),
    "nan parameter": (["run", "pendulum", "--set", "g_over_l=nan"], "--set g_over_l=nan: found nan"),
    "two numbers": (["check", "pendulum", "--set", "g_over_l=1,2"], "--set g_over_l: found several values"),
    "numbers of an array": (["run", "mine.py:entry", "--set", "g=1,2,3"], "--set g=1,2,3: found shape (3,)"),
    "parameter without name": (["run", "pendulum", "--set", "=2"], "--set =2: give name=value"),
    "problem to run": (["run", "cart_pole"], "is a boundary problem; dalembert solve cart_pole solves it"),
    "data of a resumed run": (
        ["run", "pendulum", "--q0", "1", "--save", "run.zarr", "--resume"],
        "--q0: is read from the store that is resumed; leave it out",
    ),
    "resumed without a store": (["run", "pendulum", "--resume"], "--resume: needs the store of the run, --save run.zarr"),
    "zip of one": (["run", "pendulum", "--zip"], "--zip: is for several values of --set; leave it out"),
    "coordinate of a branch": (
        ["run", "pendulum", "--branch", "nearest-previous:7"],
        "branch: found Nearest(coordinates=(7,)",
    ),
    "half a coordinate": (["run", "pendulum", "--branch", "nearest-previous:0.5"], "after the colon are whole numbers"),
    "dates": (["run", "mine.py:dated"], "q0: found tuple ('2020-01-01', 0.0), which is not an array of numbers"),
    "step as text": (["run", "mine.py:slow"], "--h: found str '0.1', which is not a number"),
    "file that leaves": (["run", "leaves.py:system"], "leaves.py: SystemExit: 0"),
    "nan of order": (["check", "pendulum", "--h", "nan", "--h", "0.1", "--time", "2"], "h: found nan at index 0"),
    "time of order": (["check", "pendulum", "--h", "0.1", "--h", "0.05", "--time", "-2"], "time: found -2.0"),
    "coordinate": (
        ["check", "pendulum", "--h", "0.1", "--h", "0.05", "--time", "2", "--coordinates", "z"],
        "coordinates: found 'z'",
    ),
    "nan of check": (["check", "pendulum", "--q0", "inf"], "q0: found inf at index 0"),
    "steps of solve": (["solve", "elastic_beam", "--steps", str(2**63)], f"steps: found {2**63}; give a whole number"),
    "no step of solve": (["solve", "elastic_beam", "--steps", "-1"], "steps: found -1; give a whole number"),
    "tolerance of solve": (["solve", "elastic_beam", "--tolerance", "nan"], "tolerance: found nan; give a number between"),
    "scheme of solve": (["solve", "elastic_beam", "--scheme", "euler"], "--scheme: found euler; there are interpolated"),
    "scheme of a variational problem": (
        ["solve", "elastic_beam", "--scheme", "nodes"],
        "--scheme: found nodes; there are interpolated, averaged, hermite, points",
    ),
    "parameter of solve": (["solve", "elastic_beam", "--set", "rho=inf"], "--set rho=inf: found inf"),
}


@pytest.mark.parametrize(("words", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(words, message, folder):
    output = call(*words, code=2)
    assert message in output
    assert output.startswith("dalembert: ")
    assert len(output.strip().splitlines()) == 1


def test_composed_runs_and_presets(folder):
    """--order composes; a scheme that cannot be composed is refused; the paper's integrators have names."""
    assert "10 steps of h = 0.5" in call("run", "nonholonomic_particle", "--order", 8, "--h", 0.5, "--steps", 10)
    assert "stages of a composition" in call("run", "nonholonomic_particle", "--order", 4, "--scheme", "nodes", code=2)
    assert "the orders are 2, 4, 6, 8, 10" in call("run", "nonholonomic_particle", "--order", 3, code=2)
    assert "give it there" in call("run", "nonholonomic_particle", "--order", 4, "--scheme", "mine.py:nodes", code=2)
    call(
        "run", "nonholonomic_particle", "--scheme", "jimenez-scheurle-explicit", "--h", 0.1, "--steps", 10, "--save", "x.nc"
    )
    path = da.load("x.nc")
    x, _, z = np.asarray(path.v).T
    np.testing.assert_allclose(z, path.q[:, 1] * x, rtol=0, atol=1e-14)
    assert float(path.t_multipliers[0]) == pytest.approx(0.1)  # at the end of the step, where the node is
    refused = call("run", "nonholonomic_particle", "--scheme", "jimenez-scheurle-implicit", "--order", 4, code=2)
    assert "--order: found 4" in refused


def test_check_says_what_the_constraints_are(folder):
    assert "inconsistent data" in call("check", "nonholonomic_particle", "--v0", "1,0,0", code=1)
    assert "does not hold" in call("check", "inertia_wheel_pendulum", "--steps", 200, code=1)
    assert "are needed: a System brings no start; give --q0 " in call("check", "mine.py:falling", code=2)


def test_a_sweep_goes_on_in_its_store(tmp_path):
    store = tmp_path / "study.zarr"
    words = ("run", "pendulum", "--set", "q0=0.5,1,1.5", "--steps", 10, "--save", store)
    first = call(*words)
    assert "success: 3" in first
    before = {file: file.stat().st_mtime_ns for file in store.glob("*/c.*")}
    assert call(*words) == first
    assert {file: file.stat().st_mtime_ns for file in store.glob("*/c.*")} == before
    assert da.load(store).sel(q0=1.0).steps == 10
    assert "values['q0']: the sweep in the store has others" in call(*words[:2], "--set", "q0=0.5,1,2", *words[4:], code=2)


PROBLEM_FILE = """
import dalembert as da
from dalembert.gallery import BoundaryEntry

mass = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v, coordinates=("x",), parameters={"m": 1.0})
plan = da.OptimalControl(mass, cost=lambda q, v, u, p: u @ u, actuated=0)
ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "T": 1.0, "bounds": {"u": (-30.0, 30.0)}}
move = BoundaryEntry("move", title="Move", formula="u^2", source="none", problem=plan, boundary=ends, steps=20)
"""


def test_a_sweep_of_a_problem_prints_its_costs(folder):
    """12 m² x²/T³ /(1 + 2/N²); a force of 3 cannot do it in the time 1."""
    (folder / "moves.py").write_text(PROBLEM_FILE)
    words = ("solve", "moves.py:move", "--set", "final.x=0.5,1", "--set", "T=1:2:2", "--set", "m=2")
    record = json.loads(call(*words, "--save", "moves.zarr", "--plot", "moves.png", "--json"))
    wanted = np.array([[0.25], [1.0]]) * 48 / np.array([1.0, 8.0]) / (1 + 2 / 20**2)
    np.testing.assert_allclose(record["value"], wanted, rtol=1e-6)
    assert (record["axes"], record["value_of"], record["steps"]) == (["final_x", "T"], "cost", 20)
    before = {file: file.stat().st_mtime_ns for file in (folder / "moves.zarr").glob("*/c.*")}
    assert "success: 4" in call(*words, "--save", "moves.zarr")
    assert {file: file.stat().st_mtime_ns for file in (folder / "moves.zarr").glob("*/c.*")} == before
    told = " ".join(call(*words[:2], "--set", "bounds.u=3,30").split())
    assert "infeasible: 1, success: 1" in told
    assert "infeasible: no motion near the guess joins these ends" in told
    assert "2 problems" in call(*words[:2], "--set", "bounds.u=1,2", code=1)
    assert "--h: is for runs from initial data; moves.py:move is a boundary problem" in call(
        "run", *words[1:], "--h", 0.1, code=2
    )
    assert abs(json.loads(call(*words[:2], "--set", "T=2", "--json"))["value"] - 12 / 8 / (1 + 2 / 20**2)) < 1e-6
    assert call("run", *words[1:]) == call(*words)
    assert "found 'y'; the coordinates are x" in call(*words[:2], "--set", "final.y=1,2", code=2)


OLD = {  # words, what is printed first, what they are now
    "resume": (
        ["resume", "pendulum", "run.zarr"],
        "run NAME --save STORE --resume",
        "run pendulum --save run.zarr --resume",
    ),
    "sweep": (
        ["sweep", "pendulum", "--set", "g_over_l=1,2", "--steps", "5"],
        "run or solve with several values of --set",
        "run pendulum --set g_over_l=1,2 --steps 5",
    ),
    "order": (
        ["order", "pendulum", "--h", "0.2", "--h", "0.1", "--time", "1"],
        "check with several --h",
        "check pendulum --h 0.2 --h 0.1 --time 1",
    ),
    "animate": (
        ["animate", "pendulum", "--time", "0.2", "--force"],
        "page --animate",
        "page pendulum --animate --time 0.2 --force",
    ),
}


@pytest.mark.parametrize(("old", "new", "now"), OLD.values(), ids=OLD.keys())
def test_old_commands_warn_and_do_the_same(old, new, now, folder):
    call("run", "pendulum", "--steps", 5, "--save", "run.zarr")
    warning, _, printed = call(*old).partition("\n")
    assert warning == f"dalembert {old[0]} is deprecated; use dalembert {new}"
    assert printed == call(*now.split())
    assert f"│ {old[0]} " not in call("--help")


def test_a_saved_file_is_shown(folder):
    call("run", "pendulum", "--steps", 5, "--save", "run.nc")
    assert "wrote run.html" in call("page", "run.nc")
    assert "Motion of θ" in (folder / "run.html").read_text(encoding="utf-8")
    call("run", "pendulum", "--steps", 5, "--set", "g_over_l=1,2", "--save", "study.nc")
    assert "wrote s.html" in call("page", "study.nc", "--output", "s.html", "--title", "Two lengths")
    assert "Two lengths" in (folder / "s.html").read_text(encoding="utf-8")
    assert "wrote run.gif" in call("page", "run.nc", "--animate", "--fps", 4)
    assert "--h: run.nc is a file, and what it holds is computed; leave it out" in call(
        "page", "run.nc", "--h", 0.1, "--force", code=2
    )
    assert "no.nc" in call("page", "no.nc", code=2)
