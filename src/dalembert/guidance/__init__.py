"""Guidance along a plan where the motion differs from it: gains, a receding horizon, sensitivities. Begin with `gains`.

`linearisation` has the second variation of a problem along its solution and its neighbours, and `loop` a plant with a
controller in Python.
"""

from dalembert.guidance.derivatives import Derivatives, Optimum, Sensitivity, optimum, sensitivity
from dalembert.guidance.gains import Controllability, Feedback, controllability, feedback
from dalembert.guidance.loop import ClosedLoop, PredictiveController, Replanned, closed_loop, mpc

__all__ = [
    "ClosedLoop",
    "Controllability",
    "Derivatives",
    "Feedback",
    "Optimum",
    "PredictiveController",
    "Replanned",
    "Sensitivity",
    "closed_loop",
    "controllability",
    "feedback",
    "mpc",
    "optimum",
    "sensitivity",
]
