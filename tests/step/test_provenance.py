"""The record of a run tells systems apart that are written with the same words."""

import json

import equinox as eqx
import jax
import numpy as np

import dalembert as da
from dalembert.gallery import curvature_particle


def run(system, **options):
    return da.simulate(system, [0.0, 0.0], [1.0, 1.0], h=0.1, steps=2, **options).provenance


def test_captured_functions_and_values_belong_to_the_source():
    def build(scale, weights):
        return da.System(lambda q, v: 0.5 * scale * (v @ v) + q @ weights)

    ones = np.ones(2)
    hashes = [
        run(build(scale, weights)).source_hash for scale, weights in ((1.0, ones), (2.0, ones), (1.0, 2 * ones), (1.0, ones))
    ]
    assert hashes[0] == hashes[3]
    assert len(set(hashes)) == 3
    first = run(curvature_particle.curvature_particle(lambda q, p: 1.0 + q[0]))
    second = run(curvature_particle.curvature_particle(lambda q, p: 1.0 - q[0]))
    assert first.source_hash != second.source_hash
    assert "1.0 - q[0]" in second.source


def test_kinds_of_constraints_and_callbacks_are_recorded():
    condition = lambda q, v: q[0] > 5.0  # noqa: E731
    lagrangian = lambda q, v: 0.5 * v @ v  # noqa: E731
    phi = lambda q, v, *a: v[1] - v[0]  # noqa: E731
    first = run(da.System(lagrangian, da.Nonholonomic(phi)), stop=condition)
    assert "q[0] > 5.0" in json.loads(first.run)["stop"]
    assert first.source.startswith("# System, Nonholonomic")


class Masses(eqx.Module):
    """Parameters in a class of the user's."""

    m: jax.Array
    on: bool


def test_parameters_of_every_kind_are_recorded():
    for parameters, recorded in (
        ({"m": 2.0, "on": True}, {"m": 2.0, "on": True}),
        (Masses(np.array(2.0), True), {".m": 2.0, ".on": True}),
        ({("m", 1): 2.0}, {"[('m', 1)]": 2.0}),
    ):
        found = run(da.System(lambda q, v, p: 0.5 * v @ v, parameters=parameters)).parameters
        assert json.loads(found) == recorded


def test_functions_that_capture_each_other_end():
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    record = run(da.System(lambda q, v: (0.5 if even(2) else 1.0) * (v @ v)))
    assert "a function above" in record.source
