"""Merit, penalty and acceptance: the conditions of the literature, and the same from Python and from machine code."""

import numpy as np
import pytest

from dalembert.boundary.kkt.system import Evaluation
from dalembert.boundary.newton import merit
from dalembert.native import Point, compile_function

NUMBERS = [-3.0, -1e-15, 0.0, 1e-16, 1e-9, 0.3, 2.0, 1e7, np.inf, np.nan]


@pytest.mark.parametrize("name", merit.RULES._fields)
def test_machine_code_and_python_judge_alike(name):
    """At random numbers of all sizes, among them what is not finite."""
    rule, random = getattr(merit.RULES, name), np.random.default_rng(0)
    points = {"accepted": 2, "finite": 1}.get(name, 0)
    count = rule.__code__.co_argcount + 2 * points

    def flat(*x):
        groups = [Point(*x[3 * i : 3 * i + 3]) for i in range(points)]
        return rule(*groups, *x[3 * points :])

    compiled, seen = compile_function(flat, *[0.0] * count), set()
    for _ in range(300):
        x = random.choice(NUMBERS, count) * np.exp(random.standard_normal(count))
        with np.errstate(invalid="ignore", over="ignore"):
            given = x if name == "raised" else x.tolist()
            value = merit.raised(*given, xp=np) if name == "raised" else flat(*given)
        found = float(compiled(*x)[0])
        seen.add(found)
        assert found == pytest.approx(float(value), rel=1e-13, abs=1e-280, nan_ok=True)
    assert len(seen) > 1


def test_the_penalty_makes_the_step_a_direction_of_descent():
    """∇f·dx - ρ|c|₁ ≤ -½ max(dxᵀH dx, 0) - 0.1 ρ|c|₁, Nocedal, Wright, (18.36), and no more than is needed."""
    random = np.random.default_rng(1)
    for slope, curvature, violation in random.standard_normal((100, 3)) * [1.0, 1.0, 1e-3]:
        penalty = float(merit.raised(1e-8, slope, curvature, abs(violation), xp=np))
        assert slope - penalty * abs(violation) <= -0.5 * max(curvature, 0.0) - 0.1 * penalty * abs(violation) + 1e-12
        assert penalty >= 1e-8
        assert float(merit.raised(penalty, slope, curvature, abs(violation), xp=np)) == penalty
    assert merit.raised(2.0, 1.0, 1.0, 0.0, xp=np) == 2.0


def test_a_step_is_accepted_where_merit_falls_or_the_gradient_is_halved():
    old = Evaluation(1.0, 0.5, np.zeros(1), 4.0)
    at = lambda f, c, g: Evaluation(f, c, np.zeros(1), g)  # noqa: E731
    slope = -1.0  # of Σf; with ρ = 2 that of the merit is -2
    assert merit.accepted(old, at(0.9, 0.5, 4.0), 2.0, slope)
    assert not merit.accepted(old, at(1.0 - 1e-4, 0.5, 4.0), 2.0, slope)  # less than 1e-4 of the slope, 2e-4
    assert not merit.accepted(old, at(0.9, 0.6, 4.0), 2.0, slope)
    assert merit.accepted(old, at(0.9, 0.6, 2.0), 2.0, slope)
    assert not merit.accepted(old, at(-np.inf, 0.0, 1.0), 2.0, slope)
    assert not merit.accepted(old, at(0.0, 0.0, np.nan), 2.0, slope)
    assert merit.descends(old, at(1.0 - 1e-4, 0.5, 4.0), 2.0, slope, 0.5)
