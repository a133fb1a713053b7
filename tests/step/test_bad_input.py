"""What a wrong input says: the argument, what was found, and what is right; and what is kept where a run ends early."""

import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.options import PLACES, group_options

CURVATURE = ENTRIES["curvature_particle"].system
FREE2, DATA2 = ([0.0, 0.0], [1.0, 1.0]), {"h": 0.1, "steps": 4}
PARTICLE = ENTRIES["nonholonomic_particle"]
DATA3 = ([0.0, 1.0, 0.0], [1.0, 0.5, 1.0])
ROLLING = lambda q, v: v[2] - q[1] * v[0]  # noqa: E731


def free(q, v):
    return 0.5 * (v @ v)


FREE = da.System(free)


def run(system, data=FREE2, **options):
    return da.simulate(system, *data, **{**DATA2, **options})


LAGRANGIANS = {
    "vector": (lambda q, v: v, ValueError, r"lagrangian: returns shape \(2,\); a scalar"),
    "tuple": (lambda q, v: (v @ v, 1.0), ValueError, r"lagrangian: returns shape \(2,\); a scalar"),
    "one entry": (lambda q, v: (v @ v)[None], ValueError, r"lagrangian: returns shape \(1,\); a scalar"),
    "integer": (lambda q, v: 1, TypeError, "lagrangian: returns int64; a real floating"),
    "complex": (lambda q, v: v @ v + 1j, TypeError, "lagrangian: returns complex128"),
    "nothing": (lambda q, v: None, ValueError, "lagrangian: could not be evaluated.*returns numbers"),
    "a p too many": (lambda q, v, p: v @ v, TypeError, r"lagrangian: .*'p'.*called as f\(q, v\)"),
    "if": (lambda q, v: v @ v if q[0] > 0 else 0.0, TypeError, "lagrangian: uses Python control flow.*jnp.where"),
    "and": (lambda q, v: v @ v * (q[0] > 0 and q[1] > 0), TypeError, "lagrangian: uses Python control flow"),
    "math": (lambda q, v: v @ v + math.sin(q[0]), TypeError, "lagrangian: turns a traced value.*jnp.sin"),
    "numpy": (lambda q, v: v @ v + np.sin(q[0]), TypeError, "lagrangian: turns a traced value.*jnp.sin"),
    "numpy vector": (lambda q, v: np.dot(v, v), TypeError, "lagrangian: turns a traced value"),
    "float()": (lambda q, v: v @ v + float(q[0]), TypeError, r"lagrangian: turns a traced value.*without float\(\)"),
    "item": (lambda q, v: v @ v + q[0].item(), TypeError, "lagrangian: turns a traced value"),
    "index": (lambda q, v: v @ v + q[2], ValueError, "lagrangian: reads index 2 of an array of 2"),
    "index below": (lambda q, v: v @ v + q[-3], ValueError, "lagrangian: reads index -1 of an array of 2"),
    "name": (lambda q, v: v @ v + gravity, TypeError, "lagrangian: .*NameError: name 'gravity'"),
    "degenerate": (
        lambda q, v: 0.5 * (v[0] + v[1]) ** 2,
        da.RankDeficientError,
        r"lagrangian: the mass matrix.*degenerate.*rank 1 of 2.*along \[ 0.707107 -0.707107\]",
    ),
    "constant": (lambda q, v: 1.0, da.RankDeficientError, r"degenerate.*along \[1. 0.\] and \[0. 1.\]"),
    "not finite": (lambda q, v: v @ v + jnp.log(q[0] - 1), ValueError, "lagrangian: is nan at q0, v0"),
    "slope not finite": (lambda q, v: v @ v + jnp.sqrt(q[0]), ValueError, "lagrangian: its derivatives are not finite"),
}


@pytest.mark.parametrize("case", LAGRANGIANS)
def test_lagrangian(case):
    function, error, message = LAGRANGIANS[case]
    with pytest.raises(error, match=message):
        run(da.System(function))


@pytest.mark.parametrize(
    ("options", "called"),
    [({"parameters": {"m": 1.0}}, r"f\(q, v, p\)"), ({"time_dependent": True}, r"f\(q, v, t\)"),
     ({"parameters": {"m": 1.0}, "time_dependent": True}, r"f\(q, v, t, p\)")],
)  # fmt: skip
def test_a_forgotten_argument_is_named(options, called):
    with pytest.raises(TypeError, match=f"lagrangian: .*takes 2 positional.*called as {called}"):
        run(da.System(free, **options))


def test_a_wrong_parameter_name_is_named():
    with pytest.raises(ValueError, match=r"lagrangian: .*KeyError: 'mass'"):
        run(da.System(lambda q, v, p: p["mass"] * v @ v, parameters={"m": 1.0}))


N, S, H = da.Nonholonomic, da.SecondOrder, da.Holonomic
PUSH = lambda q, v, a: [1.0, 0.0, 0.0]  # noqa: E731
CONSTRAINTS = {
    "phi matrix": (N(lambda q, v: v[None]), ValueError, r"constraints\[0\] \(Nonholonomic\) phi: returns shape \(1, 3\)"),
    "phi too many": (N(lambda q, v: jnp.zeros(4)), ValueError, "phi: returns 4 equations for n = 3"),
    "phi none": (N(lambda q, v: jnp.zeros(0)), ValueError, "phi: returns 0 equations"),
    "phi arguments": (S(lambda q, v: v[0]), TypeError, r"\(SecondOrder\) phi: .*called as f\(q, v, a\)"),
    "phi if": (N(lambda q, v: v[0] if q[0] > 0 else v[1]), TypeError, "phi: uses Python control flow"),
    "reactions shape": (N(ROLLING, reactions=lambda q, v: jnp.eye(3)), ValueError, r"reactions: returns shape \(3, 3\); 1"),
    "virtual shape": (N(ROLLING, virtual=lambda q, v: jnp.ones((2, 3))), ValueError, r"virtual: returns .* shape \(3, 2\)"),
    "no reaction": (N(ROLLING, reactions=lambda q, v: [0.0, 0.0, 0.0]), da.RankDeficientError, "reactions: .* span 0"),
    "dependent virtual": (
        N(ROLLING, virtual=lambda q, v: jnp.ones((3, 2))),
        da.RankDeficientError,
        r"virtual: the 2 columns of constraints\[0\] span 1",
    ),
    "dependent reactions": (
        [S(lambda q, v, a: a[0], reactions=PUSH), S(lambda q, v, a: a[1], reactions=PUSH)],
        da.RankDeficientError,
        r"reactions: the 2 rows span 1 .*constraints\[1\]",
    ),
    "useless reaction": (
        S(lambda q, v, a: a[1], reactions=PUSH), da.RankDeficientError, "constraint forces cannot enforce",
    ),
    "redundant": (
        [N(ROLLING), N(lambda q, v: 3.0 * ROLLING(q, v))],
        da.RankDeficientError,
        r"2 equations have rank 1.*redundant \(dependent: constraints\[[01]\]",
    ),
    "redundant rows": (
        N(lambda q, v: jnp.array([v[2] - q[1] * v[0], v[1] - 0.5, v[2] - q[1] * v[0] + v[1] - 0.5])),
        da.RankDeficientError,
        r"3 equations have rank 2.*redundant \(dependent: constraints\[0\] \(Nonholonomic\) row [012]\)",
    ),
    "contradictory": (
        [S(lambda q, v, a: a[0] - 1.0, reactions=PUSH), S(lambda q, v, a: a[0] - 2.0, reactions=lambda *_: [0.0, 1.0, 0.0])],
        da.RankDeficientError,
        r"contradictory \(dependent: constraints\[[01]\]",
    ),
    "empty": (H(lambda q: 0.0 * q[0]), da.RankDeficientError, r"1 equations have rank 0.*redundant"),
    "no real root": (
        S(lambda q, v, a: a[0] ** 2 + 1.0, reactions=PUSH), da.InconsistentDataError, "no acceleration.*no real solution",
    ),
    "off the manifold": (H(lambda q: q @ q - 4.0), da.InconsistentDataError, r"\(Holonomic\) at q0 is \[-3"),
    "across the manifold": (H(lambda q: q @ q - 1.0), da.InconsistentDataError, r"d/dt of constraints\[0\] .*project"),
    "off the distribution": (N(lambda q, v: v[2]), da.InconsistentDataError, r"\(Nonholonomic\) at \(q0, v0\) is \[1"),
    "not finite": (H(lambda q: jnp.sqrt(q[0] - 1.0)), ValueError, r"constraints\[0\] \(Holonomic\) phi: is \[nan\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONSTRAINTS)
def test_constraints(case):
    constraints, error, message = CONSTRAINTS[case]
    with pytest.raises(error, match=message):
        run(da.System(free, constraints), DATA3)


LYAPUNOV = {
    "index": (5, ValueError, r"actuated: found index 5; the system has coordinates 0 to 1"),
    "row": ([1.0, 0.0, 0.0], ValueError, "actuated: found 3 numbers.*n = 2"),
    "nothing": ([0.0, 0.0], da.RankDeficientError, "reactions: the 1 rows span 0"),
}


@pytest.mark.parametrize("case", LYAPUNOV)
def test_lyapunov(case):
    actuated, error, message = LYAPUNOV[case]
    with pytest.raises(error, match=message):
        run(da.System(free, da.Lyapunov(lambda q, v: 0.5 * (q @ q + v @ v), lambda q, v: v[0] ** 2, actuated)))
    named = da.System(free, da.Lyapunov(lambda q, v: 0.5 * v @ v, lambda q, v: v[0] ** 2, "wheel"), coordinates=("x", "y"))
    with pytest.raises(TypeError, match=r"actuated: found str 'wheel'; give the name or the index .* of x, y, a row"):
        run(named)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: da.System(None), TypeError, "lagrangian: found None; give a function"),
        (lambda: da.System(free, free), TypeError, "constraints: found function; give one or several of Holonomic"),
        (lambda: da.System(free, [free]), TypeError, "constraints: item 0 is function free"),
        (lambda: da.Holonomic(0), TypeError, "phi: found 0; give a function"),
        (lambda: da.Nonholonomic(free, reactions=free, virtual=free), ValueError, "reactions, virtual: found both"),
        (lambda: da.System(free, forces=1.0), TypeError, "forces: found 1.0; give a function"),
        (lambda: run(da.System(free, forces=lambda q, v: 0.0)), ValueError, r"forces: returns shape \(\); shape \(2,\)"),
        (lambda: da.System(free, coordinates="xy"), TypeError, r"coordinates: found 'xy'; .*\('x', 'y'\)"),
        (lambda: da.System(free, coordinates=("x", "x")), ValueError, "coordinates: .*each different"),
        (
            lambda: run(da.System(free, coordinates=("x",))),
            ValueError,
            "q0: found 2 numbers; the system has 1 coordinate, x",
        ),
        (lambda: da.System(free, parameters={"m": "heavy"}), TypeError, r"parameters\['m'\]: found str"),
        (lambda: da.System(free, parameters={"k": free}), TypeError, r"parameters\['k'\]: found function"),
        (lambda: CURVATURE.replace(mass=1.0), ValueError, "replace: found mass; the parameters are .*m"),
        (lambda: CURVATURE.replace(m=[1.0, 2.0]), ValueError, r"replace\[\'m\'\]: found shape \(2,\)"),
        (lambda: run(CURVATURE.replace(m=np.inf)), ValueError, r"replace\['m'\]: found inf; .*finite"),
        (lambda: FREE.replace(m=1.0), TypeError, "replace: this system has no mapping of parameters"),
    ],
)
def test_building_a_system(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (([0.0, 0.0], None), TypeError, "v0: is missing"),
        (([0.0, 0.0], [1.0]), ValueError, "v0: found 1 numbers, and q0 has 2"),
        (([[0.0, 0.0]], [1.0, 1.0]), ValueError, r"q0: found shape \(1, 2\)"),
        ((0.0, 1.0), ValueError, r"q0: found shape \(\); give one number per coordinate"),
        (
            (["a", "b"], [1.0, 1.0]),
            TypeError,
            "q0: found list .*, which is not an array of numbers; give numbers and not text",
        ),
        (([0.0, np.nan], [1.0, 1.0]), ValueError, "q0: found nan at index 1; every number must be finite"),
        (([0.0, 0.0], [np.inf, 1.0]), ValueError, "v0: found .*finite"),
    ],
)
def test_initial_data(data, error, message):
    with pytest.raises(error, match=message):
        run(FREE, data)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [({"h": h}, ValueError, "h: found .*finite step that is not 0") for h in (0, np.nan, np.inf, [0.1])]
    + [({"h": "0.1"}, TypeError, "h: found str '0.1', which is not a number"), ({"h": True}, TypeError, "h: found True")]
    + [({"steps": n}, TypeError, "steps: found .*whole number") for n in (2.5, "3", None, True)]
    + [({"steps": n}, ValueError, "steps: found .*whole number") for n in (0, -1, 2**63, 10**400)]
    + [({"t0": t}, ValueError, "t0: found .*finite time") for t in (np.nan, [0.0])]
    + [
        ({"h": None}, TypeError, "h: is missing"),
        ({"t0": None}, TypeError, "t0: found None, which is not a number; give a finite time"),
        ({"save_every": 0}, ValueError, "every: found 0"),
        ({"max_iterations": 0}, ValueError, "max_iterations: found 0"),
        ({"tolerance": 0.0}, ValueError, "tolerance: found 0.0; .*between 0 and 1"),
        ({"starter": "third"}, ValueError, "starter: found 'third'; the starters are second_order"),
        ({"branch": "nearest"}, TypeError, "branch: found str 'nearest'; give Nearest"),
        ({"branch": da.Avoid()}, ValueError, "branch: Avoid.. without a factor needs one Lyapunov constraint"),
        ({"feedback": free}, TypeError, "feedback: found function free; give SampledFeedback"),
        ({"feedback": da.SampledFeedback(free)}, ValueError, r"feedback law: returns shape \(\).*\(2,\)"),
        ({"scheme": "nodes"}, TypeError, "scheme: found str 'nodes'; give a Scheme"),
        ({"stop": free}, TypeError, "stop: returns float64; a condition"),
        ({"domain": 3}, TypeError, "domain: found 3; give a function"),
        ({"stop": lambda q, v: q[0] > 1 and q[1] > 1}, TypeError, "stop: uses Python control flow"),
        ({"reduce": free}, TypeError, "reduce: found .*give .function, initial."),
        ({"reduce": (lambda c, t, q: c, 0.0)}, TypeError, r"reduce: .*called as function\(value, t, q, v, multipliers\)"),
        ({"reduce": (lambda c, t, q, v, m: q, 0.0)}, ValueError, r"reduce: returns shapes \(2,\); the initial"),
        ({"nodes": [[0.0, 0.0]] * 2}, ValueError, "nodes: belong to the form 'nodes'.*starts from q0 and v0"),
    ],
)  # fmt: skip
def test_run_arguments(options, error, message):
    with pytest.raises(error, match=message):
        run(FREE, **group_options(options, PLACES))


def test_what_is_allowed():
    """Integers as data, tuples and lists from the user's functions, a list of numbers as a parameter."""
    path = run(FREE, ([0, 0], [1, 2]))
    np.testing.assert_allclose(path.q[-1], [0.4, 0.8], rtol=1e-14)
    plain = run(PARTICLE.system, DATA3)
    listed = da.System(
        lambda q, v, p: 0.5 * sum(p["m"][i] * v[i] ** 2 for i in range(3)),
        N(lambda q, v, p: (v[2] - q[1] * v[0],), reactions=lambda q, v, p: [-q[1], 0.0, 1.0]),
        forces=lambda q, v, p: (0.0, 0.0, 0.0),
        parameters={"m": [1, 1, 1]},
    )
    np.testing.assert_allclose(run(listed, DATA3).q, plain.q, rtol=1e-13)


def test_curvature_particle_at_rest():
    with pytest.raises(ValueError, match=r"constraints\[0\] \(SecondOrder\) phi: is \[nan\].*at rest"):
        run(CURVATURE, ([0.0, 0.0], [0.0, 0.0]))


def test_singular_mass_that_the_constraint_makes_regular():
    """Heisenberg: L = ½(ẋ²+ẏ²), ż = yẋ - xẏ, Chetaev force λ(-y, x, 1). The z equation gives λ = 0: x, y are free."""
    heisenberg = da.System(lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2), N(lambda q, v: v[2] - q[1] * v[0] + q[0] * v[1]))
    path = da.simulate(heisenberg, [0.2, 0.1, 0.0], [1.0, 0.5, 0.1 * 1.0 - 0.2 * 0.5], h=0.1, steps=20)
    np.testing.assert_allclose(path.q[-1, :2], [2.2, 1.1], rtol=1e-12)
    np.testing.assert_allclose(path.multipliers, 0.0, atol=1e-12)
    with pytest.raises(da.RankDeficientError, match=r"degenerate.*along \[0. 0. 1.\]"):
        run(da.System(lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2)), DATA3)


# Runs that end early. y is the time: y = t for the data (0, 0), (v_x, 1).

# (ẍ+1)² = 4 - 4y has no real ẍ after t = 1.
ROOTS = da.System(free, S(lambda q, v, a: (a[0] + 1.0) ** 2 - 4.0 + 4.0 * q[1], reactions=lambda q, v, a: [1.0, 0.0]))
# The force p(y) vanishes at t = 0.5, a node: there ẍ = 1 cannot be enforced.
WEAK = da.System(free, S(lambda q, v, a: a[0] - 1.0, reactions=lambda q, v, a: [q[1] - 0.5, 0.0]))
# The mass is NaN beyond y = 1.
EDGE = da.System(lambda q, v: 0.5 * (v[0] ** 2 * (1.0 + jnp.sqrt(1.0 - q[1])) + v[1] ** 2), S(
    lambda q, v, a: a[1], reactions=lambda q, v, a: [0.0, 1.0]))  # fmt: skip
START = ([0.0, 0.0], [0.0, 1.0])


def ended(system, outcome, data=START, **options):
    """The run without an error; and that the error carries the same path."""
    path = run(system, data, throw=False, **{"steps": 40, **options})
    assert path.outcome is outcome
    assert outcome.message in path.describe()
    with pytest.raises(da.StepError) as caught:
        run(system, data, **{"steps": 40, **options})
    np.testing.assert_array_equal(caught.value.path.q, path.q)
    assert str(caught.value) == caught.value.path.describe()
    assert path.q.shape[0] == path.t.shape[0] == path.steps + 1
    assert np.all(np.isfinite(path.q))
    assert np.all(np.isfinite(path.v))
    assert np.all(np.isfinite(path.multipliers))
    assert int(path.statistics.failed_step) == path.steps
    np.testing.assert_allclose(path.statistics.failed_time, path.t[-1])
    return path


def test_no_real_root_along_the_way():
    path = ended(ROOTS, da.Outcome.NO_SOLUTION)
    assert 0.8 <= path.t[-1] <= 1.1  # the node equations are read half a step later
    assert path.statistics.failed_residual > 0
    t = np.asarray(path.t)
    exact = -0.5 * t**2 + 2 * (t * 2 / 3 + 4 / 15 * (np.maximum(1 - t, 0) ** 2.5 - 1))  # ẍ = -1 + 2√(1-t)
    inside = t < 0.85
    np.testing.assert_allclose(path.q[inside, 0], exact[inside], rtol=0, atol=5e-3)


def test_singular_step_along_the_way():
    path = ended(WEAK, da.Outcome.SINGULAR, h=0.2)  # nodes at (k + ½)h on the mid-point form: t = 0.5 is one of them
    assert path.steps == 2
    np.testing.assert_allclose(path.q[:, 0], 0.5 * path.t**2, rtol=0, atol=1e-12)  # ẍ = 1 as long as it could be enforced
    np.testing.assert_allclose(path.constraint_forces[:, 0], 1.0, rtol=1e-12)


def test_nan_along_the_way():
    path = ended(EDGE, da.Outcome.NOT_FINITE, ([0.0, 0.0], [0.3, 1.0]))
    assert 0.85 < path.t[-1] < 1.05
    np.testing.assert_allclose(path.q[:, 1], path.t, rtol=0, atol=1e-13)


def test_domain_left():
    path = ended(FREE, da.Outcome.LEFT_DOMAIN, ([0.0, 0.0], [1.0, 0.5]), stop=da.Stop(domain=lambda q, v: q < 1.03))
    assert path.steps == 10
    np.testing.assert_allclose(path.q[-1], [1.0, 0.5])


def test_not_converged():
    path = ended(CURVATURE, da.Outcome.NOT_CONVERGED, FREE2, solver=da.Solver(max_iterations=1))
    assert path.steps == 0
    np.testing.assert_array_equal(path.q, [[0.0, 0.0]])


@pytest.mark.parametrize("h", [1.5, 3.0])
def test_an_iteration_that_runs_away_is_called_by_its_name(h):
    """tan(φ/2) = (h/2)k|v|cos(φ/2) has a root for every h: neither a singular step nor a missing root is to blame."""
    ended(CURVATURE, da.Outcome.NOT_CONVERGED, FREE2, h=h)


def test_first_step_fails_on_nodes():
    """The two nodes of the start are kept."""
    path = run(CURVATURE, solver=da.Solver(max_iterations=1), throw=False, scheme=da.Scheme("nodes"))
    assert path.q.shape == (2, 2)
    assert path.outcome is da.Outcome.NOT_CONVERGED


def test_a_failing_lane_changes_no_other():
    """Integer codes per lane; rows after the end repeat the last state."""

    @jax.jit
    @jax.vmap
    def lanes(x):
        path = da.simulate(ROOTS, jnp.stack([0.0 * x, x]), jnp.array([0.0, 1.0]), h=0.1, steps=12)
        return path.q, path.outcome, path.steps_done

    starts = jnp.array([-3.0, 0.5, -2.0])
    q, codes, done = lanes(starts)
    assert codes[0] == codes[2] == da.Outcome.SUCCESS
    assert da.Outcome(int(codes[1])).failed
    assert done[0] == done[2] == 12 > done[1]
    for i in (0, 1, 2):
        alone = run(ROOTS, ([0.0, float(starts[i])], [0.0, 1.0]), steps=12, throw=False)
        np.testing.assert_allclose(q[i, : done[i] + 1], alone.q, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(
        q[1, int(done[1]) + 1 :], np.broadcast_to(q[1, int(done[1])], q[1, int(done[1]) + 1 :].shape)
    )


def test_x64_off():
    with jax.enable_x64(False):
        for call in (
            lambda: run(FREE),
            lambda: da.reference(FREE, *FREE2, [0.0, 1.0]),
            lambda: da.project(FREE, *FREE2),
        ):
            with pytest.raises(RuntimeError, match="jax_enable_x64 is off"):
                call()


def test_importing_turns_x64_on():
    code = "import dalembert, jax.numpy as jnp; print(jnp.zeros(1).dtype)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "float64\n"
