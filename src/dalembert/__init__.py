"""dalembert: discrete Lagrange-d'Alembert mechanics on JAX.

Importing the package turns JAX's 64 bit mode on: second differences in single precision are noise. A public name loads its
room, and those below, with its first use. JAX itself loads with the first of them, or when the user imports it, so that what
needs no array (the help of the command line, its mistakes) is there at once; its 64 bit mode is on from its first moment.
"""

import difflib
import importlib
import warnings
from typing import TYPE_CHECKING

from dalembert import precision

precision.doubled()

ROOMS = (
    "outcome", "interrupts", "options", "groups", "path", "solution", "drawing", "systems", "symbolic", "discretize", "step",
    "boundary", "control", "guidance", "laws", "measure", "claims", "symmetry", "store", "show", "studies",
)  # from below  # fmt: skip
LOADED_WITH = {"step": "studies"}  # what is written into a store by functions of the first room is written by the second
MOVED = {  # names that stood at the top, by the room in which they are found
    "path": ("Provenance", "Statistics"),
    "solution": ("ActiveBounds", "BoundaryStatistics", "ControlSolution", "FinalTime", "Refinement"),
    "systems": (
        "AdaptedReference",
        "Connection",
        "Independent",
        "Interpolant",
        "Ostrogradsky",
        "Projection",
        "Reduction",
        "Reference",
        "Solvability",
        "adapted_reference",
        "connection",
        "deformed",
        "independent",
        "interpolant",
        "ostrogradsky",
        "reduction",
    ),
    "symbolic": ("SymbolicEquations", "symbolic_equations"),
    "discretize": ("Redefined", "SchemeClaims", "redefined"),
    "step": ("PreparedRun", "Root", "StepProgram", "simulate_free_steps"),
    "boundary": ("Extremals",),
    "control": ("eliminate", "singular_arcs"),
    "guidance": (
        "ClosedLoop",
        "Controllability",
        "Derivatives",
        "Feedback",
        "Optimum",
        "PredictiveController",
        "Replanned",
        "Sensitivity",
        "controllability",
    ),
    "laws": ("ControlLaw", "EnergyShaping", "Matching", "energy_shaping", "matching"),
    "claims": ("Claim", "Finding", "Verdict"),
    "symmetry": ("FullMotion", "Quotient", "QuotientMotion", "QuotientRates", "Reduced", "Symmetries", "TurnedReduction"),
    "store": ("from_xarray", "to_xarray"),
    "show": ("Animation",),
    "studies": ("run_statistics",),
}

if TYPE_CHECKING:
    from dalembert import boundary as boundary
    from dalembert import claims as claims
    from dalembert import control as control
    from dalembert import discretize as discretize
    from dalembert import drawing as drawing
    from dalembert import groups as groups
    from dalembert import guidance as guidance
    from dalembert import laws as laws
    from dalembert import measure as measure
    from dalembert import options as options
    from dalembert import path as path
    from dalembert import show as show
    from dalembert import solution as solution
    from dalembert import step as step
    from dalembert import store as store
    from dalembert import studies as studies
    from dalembert import symbolic as symbolic
    from dalembert import symmetry as symmetry
    from dalembert import systems as systems
    from dalembert.boundary import *
    from dalembert.claims import *
    from dalembert.control import *
    from dalembert.discretize import *
    from dalembert.drawing import *
    from dalembert.guidance import *
    from dalembert.interrupts import Interrupted
    from dalembert.laws import *
    from dalembert.options import Save, Solver, Start, Stop
    from dalembert.outcome import Outcome
    from dalembert.path import *
    from dalembert.show import *
    from dalembert.solution import *
    from dalembert.step import *
    from dalembert.store import *
    from dalembert.studies import *
    from dalembert.symbolic import *
    from dalembert.symmetry import *
    from dalembert.systems import *

else:

    def __getattr__(name):
        """A room, or a public name, which stands in the first room from below that has it."""
        if name in ROOMS:
            return load_room(name)
        for room in ROOMS if name in __all__ else ():
            found = importlib.import_module(f"{__name__}.{room}")
            if name in getattr(found, "__all__", dir(found)):  # a room's module may have the name of another room's function
                load_room(room)
                return globals().setdefault(name, getattr(found, name))
        for room in (room for room, names in MOVED.items() if name in names):
            warnings.warn(f"dalembert.{name} is now dalembert.{room}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(load_room(room), name)
        near = difflib.get_close_matches(name, __dir__(), 1)
        meant = f"; did you mean {near[0]}?" if near else ""  # Python would say so itself, but not in a notebook
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}", name=name)

    def load_room(name):
        """The room, and the one that it needs for what users ask of it."""
        if name in LOADED_WITH:
            importlib.import_module(f"{__name__}.{LOADED_WITH[name]}")
        return importlib.import_module(f"{__name__}.{name}")

    def __dir__():
        return sorted({*globals(), *__all__, *ROOMS})


__version__ = "1.0.0"

__all__ = [
    "Averaged",
    "Avoid",
    "Ball",
    "Beta",
    "Body",
    "Branch",
    "Central",
    "Constraint",
    "DiscreteSystem",
    "Dots",
    "FileError",
    "Free",
    "Hermite",
    "Holonomic",
    "InconsistentDataError",
    "Interpolated",
    "Interrupted",
    "Least",
    "Lobatto",
    "Lyapunov",
    "Nearest",
    "Nodes",
    "Nonholonomic",
    "On",
    "OptimalControl",
    "Outcome",
    "PairMap",
    "Path",
    "Periodic",
    "Points",
    "RankDeficientError",
    "Rod",
    "SampledFeedback",
    "Save",
    "Scheme",
    "SecondOrder",
    "Solution",
    "SolveError",
    "Solver",
    "Start",
    "StepError",
    "Stop",
    "Study",
    "Symmetry",
    "System",
    "TripleMap",
    "VariationalProblem",
    "Varying",
    "Wheel",
    "WindowMap",
    "acceleration",
    "animate",
    "chaplygin",
    "closed_loop",
    "control_law",
    "energies",
    "energy",
    "ensemble",
    "feedback",
    "from_sympy",
    "load",
    "manifolds",
    "matches",
    "measure",
    "momentum",
    "mpc",
    "multistart",
    "optimum",
    "page",
    "plot",
    "prepare",
    "project",
    "reference",
    "references",
    "refine",
    "resume",
    "roots",
    "routh",
    "save",
    "sensitivity",
    "simulate",
    "solvability",
    "solve",
    "solve_batch",
    "spline",
    "sweep",
    "symmetries",
    "verdict",
    "with_time",
]
