"""Boundary problems of the gallery against their closed forms, and the command that solves them."""

import numpy as np
import pytest
from scipy.integrate import solve_bvp
from typer.testing import CliRunner

import dalembert as da
from dalembert.cli import app
from dalembert.discretize import Hermite
from dalembert.gallery import PROBLEMS, elastic_beam


@pytest.mark.parametrize("name", ["minimum_acceleration", "minimum_jerk"])
def test_polynomials_of_degree_2k_minus_1_are_solved_exactly(name):
    """They are among the pieces of Hermite's windows."""
    entry = PROBLEMS[name]
    found = da.solve(entry.problem, **entry.boundary, steps=8, scheme=Hermite())
    np.testing.assert_allclose(found.q, entry.exact(found.t), rtol=0, atol=1e-11)
    assert found.kind == "minimum"


def test_the_beam_under_a_varying_load():
    mu, rho = (lambda t: 1 + t**2), (lambda t: 24 * np.e**-t)
    found = da.solve(
        elastic_beam.elastic_beam(mu, rho), initial=([0.0], [0.0]), final=([0.0], [0.0]), T=1.0, steps=16, scheme=Hermite()
    )
    rates = lambda t, y: np.stack([y[1], y[2] / mu(t), y[3], -rho(t)])  # noqa: E731  (q, q̇, M, Ṁ), M = μq̈
    ends = lambda a, b: np.array([a[0], a[1], b[0], b[1]])  # noqa: E731
    wanted = solve_bvp(rates, ends, np.linspace(0, 1, 50), np.zeros((4, 50)), tol=1e-10, max_nodes=10_000)
    np.testing.assert_allclose(found.q[:, 0], wanted.sol(np.asarray(found.t))[0], rtol=0, atol=1e-7)


def test_solve_prints_the_error_and_writes_solution_and_figure(tmp_path):
    target, picture = tmp_path / "beam.nc", tmp_path / "beam.png"
    words = ["solve", "elastic-beam", "--steps", "20", "--save", str(target), "--plot", str(picture)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "success" in result.output
    assert "closed form" in result.output
    assert da.load(target).q.shape == (21, 1)
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["solve", "pendulum"], "pendulum: is a system and not a boundary problem"),
        (["run", "elastic_beam"], "is a boundary problem; dalembert solve"),
        (["solve", "elastic_beam", "--scheme", "euler"], "--scheme: found euler"),
        (["solve", "elastic_beam", "--save", "beam.npz"], "--save: found beam.npz"),
    ],
)
def test_mistakes_are_one_line(words, message):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert message in result.output
