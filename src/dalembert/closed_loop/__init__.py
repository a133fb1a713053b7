"""What a plan is followed by when the motion differs from it: gains, a receding horizon, sensitivities. Begin with `gains`.

`linearisation` has the second variation of a problem along its solution, and `sweep` its neighbours.
"""

from dalembert.closed_loop.gains import feedback
from dalembert.closed_loop.law import Feedback

__all__ = ["Feedback", "feedback"]
