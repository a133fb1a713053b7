"""What follows a plan where the motion differs from it: gains, a receding horizon, sensitivities. Begin with `gains`.

`linearisation` has the second variation of a problem along its solution, `sweep` its neighbours, and `loop` a plant with a
controller in Python.
"""

from dalembert.guidance.derivatives import Derivatives, Sensitivity, sensitivity
from dalembert.guidance.gains import feedback
from dalembert.guidance.gramian import Controllability, controllability
from dalembert.guidance.law import Feedback
from dalembert.guidance.loop import ClosedLoop, closed_loop
from dalembert.guidance.optimum import Optimum, optimum
from dalembert.guidance.predictive import PredictiveController, Replanned, mpc

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
