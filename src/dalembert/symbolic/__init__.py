"""Between formulas and functions: a system from SymPy's expressions, and the equations of a system as such. Begin with
`equations`."""

from dalembert.symbolic.equations import SymbolicEquations, symbolic_equations
from dalembert.symbolic.given import from_sympy

__all__ = ["SymbolicEquations", "from_sympy", "symbolic_equations"]
