"""Optimal control of a System on the boundary solver. Begin with `problem`; `terms` has the equations of a node.

`dalembert.solve` takes these problems too: `solve` registers what solves them, and `boundary` knows nothing of it.
"""

from dalembert.control import solve
from dalembert.control.eliminated import eliminate
from dalembert.control.problem import OptimalControl
from dalembert.control.singular import singular_arcs

__all__ = ["OptimalControl", "eliminate", "singular_arcs", "solve"]
