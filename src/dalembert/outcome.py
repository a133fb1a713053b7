"""The outcome of a run or of a boundary problem: a number with a message."""

from __future__ import annotations

import enum


class Outcome(enum.IntEnum):
    """The outcome of a run or of a boundary problem: a number, with a message that states the cause and a
    remedy.

    Attributes:
        SUCCESS: all steps were solved.
        STOPPED: the stop condition became true.
        NO_SOLUTION: the equations of a step have no solution near the prediction.
        SINGULAR: the equations are singular: constraints or reactions became dependent, or two roots of the step met.
        NOT_CONVERGED: Newton's iteration did not reach the tolerance.
        NOT_FINITE: a function of the system returned NaN or infinity.
        LEFT_DOMAIN: the state left the domain that was given as Stop(domain=…).
        INFEASIBLE: no path near the guess satisfies the constraints with the given ends.
        NO_POSITIVE_STEP: with free steps, the energy equation has no positive solution for the next step near the last
            one; with steps of varying length, their density is not positive, or so large that the time no longer
            advances.
        ALTERNATING: the multipliers alternate from node to node, and do not tend to functions of time.
        CROSSED: the equations became singular on the way to the next node, and not because of a factor of a constraint.
        UNBOUNDED: the cost or action has fallen far below the typical sizes of the problem, and is still falling.
        INTERRUPTED: the user ended it by Ctrl-C; the results up to then are kept.
        SADDLE: a minimum was sought, and the critical point that was found is none.
        HALF_TURN: on a group, a step turns by half a turn or more: its ends do not tell which way it went.
        message: the cause and a remedy of a run, in words; those of a boundary problem are `solution.message`.
        failed: whether the run ended before its last step, and not by the user's stop condition.

    Example:
        >>> path.outcome.failed, path.outcome.message
        (False, 'all steps were solved')
    """

    SUCCESS = 0
    STOPPED = 1
    NO_SOLUTION = 2
    SINGULAR = 3
    NOT_CONVERGED = 4
    NOT_FINITE = 5
    LEFT_DOMAIN = 6
    INFEASIBLE = 7
    NO_POSITIVE_STEP = 8
    ALTERNATING = 9
    CROSSED = 10
    INTERRUPTED = 11
    UNBOUNDED = 12
    SADDLE = 13
    HALF_TURN = 14

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        """The word, or with a specification, such as d, the number."""
        return int.__format__(self, spec) if spec else str(self)

    @property
    def message(self) -> str:
        return _MESSAGES[self]

    @property
    def failed(self) -> bool:
        """True if the run ended before its last step, and not by the user's stop condition."""
        return self not in (Outcome.SUCCESS, Outcome.STOPPED)


_MESSAGES = {
    Outcome.SUCCESS: "all steps were solved",
    Outcome.STOPPED: "the stop condition became true",
    Outcome.NO_SOLUTION: (
        "the equations of the step have no solution near the prediction: the residual has a non-zero local minimum. "
        "Reduce h, or check that the constraint can be met from this state"
    ),
    Outcome.SINGULAR: (
        "the equations of the step are singular: constraints or reactions became dependent, or two roots met. "
        "See dalembert.roots for the roots of this step and dalembert.measure.regularity for the matrix"
    ),
    Outcome.NOT_CONVERGED: (
        "Newton's iteration did not reach the tolerance. Reduce h, or raise max_iterations or the tolerance. But where a "
        "step moves the coordinates by little more than their rounding, increase h"
    ),
    Outcome.NOT_FINITE: (
        "a function of the system returned NaN or infinity. Look at the Lagrangian, the forces and the constraints at "
        "the last state of the path; reduce h if the state left their domain"
    ),
    Outcome.INFEASIBLE: (
        "no path near the guess satisfies the constraints with these ends: this one violates them least (a minimum of |φ|² "
        "by Gauss-Newton steps). Check that the ends can be joined, give more time, or another guess "
        "(multistart draws several)"
    ),
    Outcome.NO_POSITIVE_STEP: (
        "there is no positive next step. With free steps: the energy equation has none near the last one, as at a turning "
        "point of the motion, or with windows of nodes where deviations of the steps grow (see simulate_free_steps). With "
        "steps of varying length: their density is not positive, or so large that the time no longer advances, as at a "
        "collision; give a shorter first step, or another density. Or go on from here with fixed steps"
    ),
    Outcome.ALTERNATING: (
        "the multipliers alternate from node to node and do not tend to functions of time, although the equations hold: a "
        "constraint contains one of lower order, or the steps are too long for it. Give that constraint itself, or use "
        "Hermite() or more steps"
    ),
    Outcome.CROSSED: (
        "the equations of the step became singular on the way to the next node and no factor explains it: their "
        "determinant changed its sign, or the gradient of a constraint on accelerations turned back. The motion may end "
        "here, with infinite speed, or meet another branch. Run again with a smaller h: if this happens at the same time, "
        "it belongs to the motion; otherwise the steps were too long. If a factor u of a constraint vanishes there, "
        "Solver(branch=Avoid(u)) divides it out; a rule such as Nearest('prediction') chooses between branches that meet"
    ),
    Outcome.UNBOUNDED: (
        "the cost or action has fallen far below the typical sizes of the problem, and is still falling: with these ends it "
        "seems to have no minimum. Look at the signs in the cost or the Lagrangian, give bounds or less time, or use "
        "seek='extremal' if any critical point will do"
    ),
    Outcome.SADDLE: (
        "the equations hold, but at a saddle: cost or action is smaller beside it, and a minimum was sought. Give another "
        "guess (multistart draws several), or seek='extremal' if any critical point will do"
    ),
    Outcome.HALF_TURN: (
        "the step turns a rotation by half a turn or more, so that its ends do not tell which way it went. Reduce h below "
        "π/|ω|"
    ),
    Outcome.LEFT_DOMAIN: "the state left the domain of Stop(domain=…). The last state of the path is the last one inside",
    Outcome.INTERRUPTED: "Ctrl-C ended it. What was computed until then is kept",
}

_ENDED = "Ctrl-C ended it. This is the path that the iteration had reached"
SOLVED = {  # of boundary problems
    Outcome.SUCCESS: "the node equations and the constraints hold",
    Outcome.INTERRUPTED: _ENDED,
    Outcome.UNBOUNDED: Outcome.UNBOUNDED.message,
    Outcome.SADDLE: Outcome.SADDLE.message,
    Outcome.SINGULAR: (
        "the KKT matrix is singular along every direction tried: constraints depend on each other with these ends, or the "
        "Lagrangian is singular there. Try another guess, other ends, or fewer constraints"
    ),
    Outcome.NOT_CONVERGED: (
        "Newton's iteration did not reach the tolerance. Raise max_iterations, give another guess, or begin with fewer "
        "steps and use that solution as the guess"
    ),
    Outcome.NOT_FINITE: (
        "a function of the problem returned NaN or infinity on the first path. Give a guess inside its domain"
    ),
}

CONTROLLED = SOLVED | {  # of optimal control
    Outcome.SUCCESS: "the equations of motion, of the adjoints and of the controls hold",
    Outcome.NOT_CONVERGED: (
        "the iteration did not reach the tolerance. Raise max_iterations, give a guess=(q, u) of path and controls "
        "(multistart draws several), or begin with fewer steps and use that solution as the guess. Where the equations of "
        "motion are violated, the controls may not join these ends inside their bounds: give more time, wider bounds, or "
        "guess='homotopy', which brings bounds and inequalities in by steps"
    ),
    Outcome.SINGULAR: (
        "the equations are singular along every direction tried: the controls cannot move everything that the ends "
        "fix (uncontrollable), constraints depend on each other with these ends, or nothing determines a control. Leave "
        "free what cannot be reached, add actuators, or add a cost of the control"
    ),
    Outcome.INFEASIBLE: (
        "no motion near the guess joins these ends: this path violates the equations of motion least. Check that the "
        "controls can move everything that the ends fix (controllability), inside their bounds; solve from several guesses "
        "(multistart), with guess=(q, u) of path and controls, or without one, as there may be a motion far from this; with "
        "guess='homotopy', which brings bounds and inequalities in by steps; or give more time"
    ),
}
