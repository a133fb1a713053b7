"""Ensembles of many sizes share the programs that XLA compiles: memory grew by 6 MB with each size."""

import jax
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES, chain
from dalembert.systems import proof as batch
from dalembert.tracing import TEXTS


def run(entry, size, **more):
    q0 = np.tile(entry.q0, (size, 1))
    return da.ensemble(entry.system, q0, np.linspace(0.9, 1.1, size)[:, None] * entry.v0, h=entry.h, steps=5, **more)


@pytest.mark.parametrize(("name", "backend"), [("pendulum", None), ("nonholonomic_particle", None), ("pendulum", "jax")])
def test_few_programs_are_compiled_for_many_sizes(name, backend):
    entry, sizes, more = (
        ENTRIES[name],
        [*range(33, 64, 3), *range(130, 250, 17)],
        {"solver": da.Solver(backend=backend)} if backend else {},
    )
    run(entry, 64, **more)
    run(entry, 256, **more)
    before, compiled = len(TEXTS), []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: event.endswith("backend_compile_duration") and compiled.append(event)
    )
    try:
        for size in sizes:
            assert run(entry, size, **more).q.shape == (size, 6, len(entry.q0))
        assert not compiled
        jax.jit(lambda x: 3.0 * x + 1.0)(1.0)
        assert compiled, "JAX says under another name that it compiles"
    finally:
        jax.monitoring.clear_event_listeners()
    assert len(TEXTS) == before


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_a_run_is_the_same_in_ensembles_of_any_size(monkeypatch, backend):
    """In the first piece and in the last, beside copies of itself and beside others."""
    monkeypatch.setattr(batch, "PIECE", 4)
    entry = ENTRIES["nonholonomic_particle"]
    v0 = np.linspace(0.5, 1.5, 11)[:, None] * entry.v0
    c = {"c": np.linspace(0.0, 0.3, 11)}
    whole = da.ensemble(entry.system, entry.q0, v0, parameters=c, h=0.05, steps=20, solver=da.Solver(backend=backend))
    for i in (0, 3, 4, 10):
        system = entry.system.replace(c=np.linspace(0.0, 0.3, 11)[i])
        alone = da.simulate(system, entry.q0, v0[i], h=0.05, steps=20)
        np.testing.assert_allclose(whole.q[i], alone.q, rtol=0, atol=1e-12)


def test_a_violated_constraint_names_the_run_among_those_that_were_given(monkeypatch):
    monkeypatch.setattr(batch, "PIECE", 4)
    entry = ENTRIES["chain"]
    q0 = np.tile(entry.q0, (6, 1))
    q0[5] *= 1.1
    with pytest.raises(da.InconsistentDataError, match=r"in run 5 .*\(1 of 6 runs\)"):
        da.ensemble(chain.chain(), q0, np.zeros_like(q0), h=0.01, steps=5)
