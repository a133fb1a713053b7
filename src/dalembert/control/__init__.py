"""Optimal control of a System on the boundary solver. Begin with `problem`; `terms` has the equations of a node.

`dalembert.solve` takes these problems too: `extremals` registers how one is solved, and many, and `boundary` knows nothing
of it.
"""

from dalembert.control import extremals
from dalembert.control.eliminated import eliminate
from dalembert.control.extremals import ControlSearch, control_search, prepare_control
from dalembert.control.problem import Lobatto, OptimalControl
from dalembert.control.refinement import refine
from dalembert.control.result import singular_arcs

__all__ = ["Lobatto", "OptimalControl", "eliminate", "extremals", "refine", "singular_arcs"]
