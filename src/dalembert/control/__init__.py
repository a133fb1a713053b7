"""Optimal control of a System on the boundary solver. Begin with `problem`; `terms` has the equations of a node.

`dalembert.solve` takes these problems too: `solve` registers what solves them, `batch` what solves many, and `boundary`
knows nothing of it.
"""

from dalembert.control import batch, solve
from dalembert.control.eliminated import eliminate
from dalembert.control.mesh.refinement import refine
from dalembert.control.problem import Lobatto, OptimalControl
from dalembert.control.singular import singular_arcs

__all__ = ["Lobatto", "OptimalControl", "batch", "eliminate", "refine", "singular_arcs", "solve"]
