"""An editor completes on results without running anything."""

from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
RUN = "import dalembert as da\nsystem = da.System(lambda q, v: 0.5 * v @ v)\nresult = {}\nresult."
CALLS = {
    "da.simulate(system, [0.0], [1.0], h=0.1, steps=5)": "constraint_forces",
    "da.ensemble(system, [[0.0]], [1.0], h=0.1, steps=5)": "lane",
    "da.solve(system)": "discretized",
    "da.multistart(system)": "solutions",
    "da.sweep(system, {})": "sel",
    "da.verdict(system)": "broken",
    "da.closed_loop(system)": "disturbance",
    "da.reference(system, [0.0], [1.0], t=[0.0, 1.0])": "integrator_steps",
    "da.project(system, [0.0], [1.0])": "moved_q",
    "da.measure.order(system)": "quantities",
    "da.measure.energy(system)": "drift",
    "da.measure.legendre(system)": "minus",
}


@pytest.mark.parametrize(("call", "name"), CALLS.items())
def test_the_fields_of_a_result_are_offered(call, name):
    jedi = pytest.importorskip("jedi")
    script = jedi.Script(RUN.format(call), project=jedi.Project(SOURCES))
    assert name in {completion.name for completion in script.complete()}
