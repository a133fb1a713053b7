"""Systems, results and errors through pickle and back: what arrives computes the same, in pools of processes too."""

import copy
import dataclasses
import functools
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES, PROBLEMS, curvature_particle, elastic_beam
from dalembert.systems import manifolds

PENDULUM = ENTRIES["pendulum"]
BEFORE_ANY_RUN = pickle.dumps(PENDULUM.system)
SOLUTION = Path(__file__).parent / "store" / "earlier" / "solution.nc"
Q, V, A = jnp.array([0.3, -0.2]), jnp.array([0.5, 0.7]), jnp.array([-0.1, 0.4])


def through(value):
    return pickle.loads(pickle.dumps(value))


def by_value(value):
    return pickle.loads(cloudpickle.dumps(value))


WAYS = {"pickle": through, "cloudpickle": by_value, "copy": copy.copy, "deepcopy": copy.deepcopy}


def same(a, b) -> bool:
    """Equal types, static fields and bits."""
    left, right = jax.tree.flatten(a), jax.tree.flatten(b)
    bits = [[(np.asarray(x).dtype, np.shape(x), np.asarray(x).tobytes()) for x in leaves] for leaves, _ in (left, right)]
    return left[1] == right[1] and bits[0] == bits[1]


def kinetic(q, v, p):
    return 0.5 * p["m"] * v @ v + jnp.cos(q[0])


def circle(q, p):
    return q @ q - p["r"]


def skate(q, v, p):
    return v[0] * jnp.sin(q[1]) - p["r"] * v[1]


def curve(q, v, a, p):
    return v[0] * a[1] - a[0] * v[1] - p["r"]


def across(q, v, a, p):
    return jnp.array([v[1], -v[0]])


def norm(q, v, p):
    return q @ q + v @ v


def damping(q, v, p):
    return -0.1 * v


def action(a, b):
    return 0.5 * (b - a) @ (b - a) - 0.1 * a @ b


def rolling(a, b):
    return b[0] - a[0] - 0.1 * jnp.sin(a[1]) * (b[1] - a[1])


def directions(q):
    return jnp.array([1.0, -0.1 * jnp.sin(q[1])])


def bending(q, v, a):
    return 0.5 * a @ a + jnp.cos(q[0])


def shape(q):
    return jnp.diag(jnp.array([1.0, 2.0 + jnp.sin(q[0])]))


def sphere(q):
    return q @ q - 1.3


def free(q, v):
    return 0.5 * v @ v


def harmonic(q, v):
    return 0.5 * (v @ v - q @ q)


def level(q, v):
    return v[0] - q[1] * v[1]


@jax.jit
def decorated(q, v, p):
    return kinetic(q, v, p)


PARAMETERS = {"m": 2.0, "r": 0.3}
system = functools.partial(da.System, kinetic, parameters=PARAMETERS, coordinates=("x", "y"))


def values(problem) -> list[np.ndarray]:
    """The user's functions of a system, evaluated."""
    return list(map(np.asarray, _values(problem)))


def _values(problem) -> list:
    if isinstance(problem, da.VariationalProblem):
        jet = (Q, V, A)[: problem.derivatives + 1]
        pairs = [(problem.derivatives, problem.lagrangian), *problem.differential, *((0, f) for f in problem.holonomic)]
        return [problem.call(f, *jet[: order + 1], t=0.3) for order, f in pairs]
    if isinstance(problem, da.DiscreteSystem):
        given = (Q, Q + 0.1 * V, Q + 0.2 * V + 0.01 * A)
        pairs = [(2, problem.lagrangian), (3, problem.kinematic), (3, problem.reactions), (2, problem.initial)]
        return [problem.call(f, *given[:count]) for count, f in pairs]
    found = [problem.call(problem.lagrangian, Q, V, t=0.3)]
    found += [] if problem.forces is None else [problem.call(problem.forces, Q, V, t=0.3)]
    for c in problem.constraints:
        if isinstance(c, da.Lyapunov):
            found += [problem.call(f, Q, V, t=0.3) for f in (c.V, c.F)]
        else:
            found.append(problem.call(c.phi, *(Q, V, A)[: c.order + 1], t=0.3))
            found += [] if getattr(c, "reactions", None) is None else [problem.call(c.reactions, Q, V, A, t=0.3)]
    return found


SYSTEMS = {
    "forces and a holonomic constraint": system(da.Holonomic(circle), forces=damping),
    "two constraints": system([da.Nonholonomic(skate), da.SecondOrder(curve, reactions=across)]),
    "Lyapunov": system(da.Lyapunov(norm, norm, 0)),
    "under jit": da.System(decorated, parameters=PARAMETERS),
    "a partial function": da.System(functools.partial(kinetic, p=PARAMETERS)),
    "deformed": da.systems.deformed(system(da.Nonholonomic(skate)), skate, 0.1),
    "deformed, without parameters": da.systems.deformed(da.System(free, da.Nonholonomic(level)), level, 0.1),
    "curvature": curvature_particle.curvature_particle(k=circle, parameters={"r": 0.2}),
    "discrete, nonholonomic": da.DiscreteSystem.nonholonomic(action, rolling, directions),
    "discrete, holonomic": da.DiscreteSystem.holonomic(action, sphere),
    "variational": da.VariationalProblem(bending, [da.Holonomic(sphere), bending], derivatives=2),
    "beam": elastic_beam.elastic_beam(mu=1.0, rho=jnp.cos),
    "spline": manifolds.riemannian_spline(manifolds.Chart(shape), 2),
    "sphere": manifolds.riemannian_spline(manifolds.sphere(), 2),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("problem", SYSTEMS.values(), ids=SYSTEMS.keys())
def test_a_system_computes_the_same_after_its_way(problem, way):
    again = way(problem)
    assert type(again) is type(problem)
    assert same(again.parameters, problem.parameters)
    assert again.coordinates == problem.coordinates
    np.testing.assert_equal(values(again), values(problem))


def test_every_entry_of_the_gallery_travels():
    for entry in (*ENTRIES.values(), *PROBLEMS.values()):
        again = through(entry)
        assert again.formula == entry.formula
        assert again.exact is entry.exact
        mine, other = (x.system if hasattr(x, "system") else x.problem for x in (entry, again))
        if isinstance(mine, da.OptimalControl):
            assert (mine.cost, mine.actuated, mine.terminal) == (other.cost, other.actuated, other.terminal)
            mine, other = mine.system, other.system
        assert same(mine.parameters, other.parameters)
        assert mine.lagrangian == other.lagrangian


CHOICES = [
    da.Scheme(),
    da.Scheme("nodes", action=(da.Beta(0.0), da.Beta(1.0)), distribution=da.Beta(0.2)),
    da.Scheme(order=6),
    da.Scheme.borda_fernandez_grillo(),
    *(window() for window in (da.Interpolated, da.Averaged, da.Hermite, da.Points)),
    *(da.Central(), da.Beta(0.3)),
    *(da.Nearest("previous", (0,)), da.Least(norm), da.Avoid(norm), da.Avoid()),
    da.SampledFeedback(damping, every=3),
    *(da.Varying(0.1), da.Varying(0.1, norm)),
    *(da.Holonomic(circle), da.Nonholonomic(skate, reactions=across), da.Lyapunov(norm, norm, [0.0, 1.0])),
    *(manifolds.Chart(shape), manifolds.Embedded(sphere, shape), manifolds.rotations((1.0, 2.0, 3.0))),
    da.Nodes(np.eye(2)),
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda x: type(x).__name__)
def test_a_choice_is_the_same_after_its_way(choice):
    """Functions with a name are the same objects there, so that the choice is equal and its text is."""
    for way in WAYS.values():
        again = way(choice)
        assert type(again) is type(choice)
        assert repr(again) == repr(choice)
        assert again == choice if isinstance(choice, manifolds.Manifold) else same(again, choice)


@pytest.fixture(scope="module")
def path():
    return da.simulate(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, h=0.1, steps=20)


def test_a_run_leaves_nothing_in_a_system_and_a_copy_runs_the_same(path):
    """Compiled code is kept elsewhere: the system is pickled as before the run, and what arrives gives the same bits."""
    assert pickle.dumps(PENDULUM.system) == BEFORE_ANY_RUN
    again = da.simulate(through(PENDULUM.system), PENDULUM.q0, PENDULUM.v0, h=0.1, steps=20)
    assert same(dataclasses.replace(again, provenance=None), dataclasses.replace(path, provenance=None))
    assert again.provenance == path.provenance


def test_results_are_the_same_after_their_way(path):
    rest = da.solve(PROBLEMS["minimum_jerk"].problem, **PROBLEMS["minimum_jerk"].boundary, steps=10)
    results = [
        *(path, path.statistics, rest, rest.statistics),
        da.reference(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, path.t),
        da.measure.energy(PENDULUM.system, path),
        da.measure.multipliers(PENDULUM.system, path),
    ]
    for result in results:
        for way in WAYS.values():
            assert same(way(result), result)
    exact = lambda t: (np.cos(t)[:, None], -np.sin(t)[:, None])  # noqa: E731
    order = da.measure.order(da.System(harmonic), [1.0], [0.0], time=1.0, h=[0.1, 0.05], exact=exact)
    assert order.q.slope == pytest.approx(2, abs=0.05)
    for way in WAYS.values():
        assert way(path.provenance) == path.provenance
        again = way(order)
        assert (again.q.slope, again.v.use) == (order.q.slope, order.v.use)
        assert all(map(same, again.paths, order.paths))


def local(m):
    """A Lagrangian that has captured a number."""

    def lagrangian(q, v):
        return 0.5 * m * v @ v

    return lagrangian


NAMELESS = {
    "System.lagrangian, <lambda>": lambda: da.System(lambda q, v: 0.5 * v @ v),
    "System.lagrangian, lagrangian": lambda: da.System(local(3.0)),
    "System.lagrangian, <lambda> .*jit": lambda: da.System(jax.jit(lambda q, v: 0.5 * v @ v)),
    "System.forces, <lambda>": lambda: da.System(free, forces=lambda q, v: -v),
    "Holonomic.phi, <lambda>": lambda: da.System(free, da.Holonomic(lambda q: q @ q - 1)),
    "VariationalProblem.differential, <lambda>": lambda: da.VariationalProblem(free, lambda q, v: v[0] - q[1]),
    "DiscreteSystem.reactions, <lambda>": lambda: da.DiscreteSystem.nonholonomic(action, rolling, lambda q: directions(q)),
    "Least.function, <lambda>": lambda: da.Least(lambda q, v: q @ q),
    "SampledFeedback.law, <lambda>": lambda: da.SampledFeedback(lambda q, v: -v),
    "Varying.density, <lambda>": lambda: da.Varying(0.1, lambda q, v: q @ q),
    "Chart.metric, <lambda>": lambda: manifolds.riemannian_spline(manifolds.Chart(lambda q: jnp.eye(2)), 2),
}


@pytest.mark.parametrize(("message", "make"), NAMELESS.items(), ids=NAMELESS.keys())
def test_functions_without_a_name_are_refused_by_pickle_and_carried_by_cloudpickle(message, make):
    made = make()
    with pytest.raises(pickle.PicklingError, match="cloudpickle carries it") as refusal:
        pickle.dumps(made)
    assert message.removesuffix(" .*jit") + " (test_pickling.py, line " in str(refusal.value)
    for way in (by_value, copy.copy, copy.deepcopy):
        again = way(made)
        assert type(again) is type(made)
        if hasattr(made, "lagrangian"):
            np.testing.assert_equal(values(again), values(made))


def test_what_a_function_has_captured_goes_with_it():
    masses = np.array([2.0, 5.0])
    made = da.System(lambda q, v: 0.5 * v @ (masses * v))
    sent = cloudpickle.dumps(made)
    masses[:] = 100.0
    assert float(pickle.loads(sent).lagrangian(Q, V)) == pytest.approx(0.5 * (2 * 0.25 + 5 * 0.49))


def test_every_public_error_travels_with_its_notes(path):
    errors = [x for x in (getattr(da, name) for name in da.__all__) if isinstance(x, type) and issubclass(x, BaseException)]
    assert {x.__name__ for x in errors} == {
        "FileError", "InconsistentDataError", "Interrupted", "RankDeficientError", "SolveError", "StepError"
    }  # fmt: skip
    failed = dataclasses.replace(path, code=np.asarray(int(da.Outcome.SINGULAR)))
    solution = da.solve(PROBLEMS["minimum_jerk"].problem, **PROBLEMS["minimum_jerk"].boundary, steps=10)
    given = {
        "FileError": ("run.nc", "is damaged"),
        "StepError": (failed,),
        "SolveError": (solution,),
        "Interrupted": (failed,),
    }
    for kind in errors:
        error = kind(*given.get(kind.__name__, ("q0: found 3",)))
        error.add_note("in study 7")
        for way in WAYS.values():
            again = way(error)
            assert (type(again), str(again), again.__notes__) == (kind, str(error), ["in study 7"])
    assert same(through(da.StepError(failed)).path, failed)
    assert same(through(da.SolveError(solution)).solution, solution)


STUDY = """
import concurrent.futures, json, multiprocessing, pickle, sys
import jax.numpy as jnp
import numpy as np
import dalembert as da
import cloudpickle


def falling(q, v):
    return 0.5 * v @ v - 9.81 * q[1]


def inside(q, v):
    return q[1] > 0.9


def failing(name):
    if name == "SolveError":
        raise da.SolveError(da.load(sys.argv[1]))
    raise getattr(da, name)(*[f"{name} of a study"] * (1 + (name == "FileError")))


def run(sent, steps):  # up and down again; below 0.9 the step fails
    system = pickle.loads(sent) if isinstance(sent, bytes) else sent
    return da.simulate(system, [0.0, 1.0], [1.0, 1.0], h=0.01, steps=steps, domain=inside)


def outcome(result):
    try:
        result()
    except Exception as error:
        path = getattr(error, "path", None)
        return [type(error).__name__, str(error), None if path is None else np.asarray(path.q).tolist()]


def main():
    system = da.System(falling)
    lost_here, wanted = outcome(lambda: run(system, 50)), np.asarray(run(system, 8).q).tolist()
    by_value = cloudpickle.dumps(da.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1]))
    found = {}

    def study(name, submit):  # submit(function, *arguments) gives a function that waits for the result
        names = "SolveError", "FileError", "InconsistentDataError", "RankDeficientError"
        jobs = [submit(run, system, 50), *(submit(failing, name) for name in names)]
        runs = [submit(run, system, 8), submit(run, by_value, 8)]
        found[name] = {
            "errors": [outcome(job) for job in jobs],
            "same": [np.asarray(job().q).tolist() == wanted for job in runs],
            "refusal": outcome(submit(run, da.System(lambda q, v: 0.5 * v @ v), 8)),
        }

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        study("Pool", lambda f, *x: lambda job=pool.apply_async(f, x): job.get(timeout=600))
    context = multiprocessing.get_context("forkserver")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        study("Executor", lambda f, *x: lambda job=executor.submit(f, *x): job.result(timeout=600))
    print(json.dumps({"here": lost_here, **found}))


if __name__ == "__main__":
    main()
"""


def test_pools_of_processes(tmp_path):
    """A run that fails in a pool raises its StepError here, with the path; spawn and forkserver, as JAX forbids fork."""
    (tmp_path / "study.py").write_text(STUDY)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", str(tmp_path / "study.py"), str(SOLUTION)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    here = found.pop("here")
    assert here[0] == "StepError"
    assert len(here[2]) == 28  # 1 + t - 9.81 t²/2 = 0.9 at t = 0.277
    assert found.keys() == {"Pool", "Executor"}
    for study in found.values():
        lost, solution, *others = study["errors"]
        assert lost == here
        assert (solution[0], solution[1]) == ("SolveError", da.load(SOLUTION).describe())
        assert [x[0] for x in others] == ["FileError", "InconsistentDataError", "RankDeficientError"]
        assert all(f"{name} of a study" in text for name, text, _ in others)
        assert study["same"] == [True, True]
        assert study["refusal"][0] == "PicklingError"
        assert "System.lagrangian, <lambda> (study.py, line" in study["refusal"][1]
