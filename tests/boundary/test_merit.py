"""Merit, penalty and acceptance: the conditions of the literature."""

import numpy as np

from dalembert.boundary import newton
from dalembert.boundary.kkt.system import Evaluation


def test_the_penalty_makes_the_step_a_direction_of_descent():
    """∇f·dx - ρ|c|₁ ≤ -½ max(dxᵀH dx, 0) - 0.1 ρ|c|₁, Nocedal, Wright, (18.36), and no more than is needed."""
    random = np.random.default_rng(1)
    for slope, curvature, violation in random.standard_normal((100, 3)) * [1.0, 1.0, 1e-3]:
        penalty = newton.raise_penalty(1e-8, slope, curvature, abs(violation))
        assert slope - penalty * abs(violation) <= -0.5 * max(curvature, 0.0) - 0.1 * penalty * abs(violation) + 1e-12
        assert penalty >= 1e-8
        assert newton.raise_penalty(penalty, slope, curvature, abs(violation)) == penalty
    assert newton.raise_penalty(2.0, 1.0, 1.0, 0.0) == 2.0


def test_a_step_is_accepted_where_merit_falls_or_the_gradient_is_halved():
    old = Evaluation(1.0, 0.5, np.zeros(1), 4.0)
    at = lambda f, c, g: Evaluation(f, c, np.zeros(1), g)  # noqa: E731
    slope = -1.0  # of Σf; with ρ = 2 that of the merit is -2
    assert newton.takes_whole(old, at(0.9, 0.5, 4.0), 2.0, slope)
    assert not newton.takes_whole(old, at(1.0 - 1e-4, 0.5, 4.0), 2.0, slope)  # less than 1e-4 of the slope, 2e-4
    assert not newton.takes_whole(old, at(0.9, 0.6, 4.0), 2.0, slope)
    assert newton.takes_whole(old, at(0.9, 0.6, 2.0), 2.0, slope)
    assert not newton.takes_whole(old, at(-np.inf, 0.0, 1.0), 2.0, slope)
    assert not newton.takes_whole(old, at(0.0, 0.0, np.nan), 2.0, slope)
    assert newton.descends(old, at(1.0 - 1e-4, 0.5, 4.0), 2.0, slope, 0.5)
