"""dalembert: discrete Lagrange-d'Alembert mechanics on JAX.

Importing the package turns JAX's 64 bit mode on: second differences in single precision are noise. A public name loads its
room, and those below, with its first use. JAX itself loads with the first of them, or when the user imports it, so that what
needs no array (the help of the command line, its mistakes) is there at once; its 64 bit mode is on from its first moment.
"""

import importlib
from typing import TYPE_CHECKING

from dalembert import precision

precision.doubled()

ROOMS = (
    "outcome", "interrupts", "path", "solution", "drawing", "systems", "symbolic", "discretize", "step", "boundary",
    "control", "guidance", "laws", "measure", "claims", "symmetry", "store", "show", "studies",
)  # from below  # fmt: skip
DOORS = {"step": "studies"}  # what is written into a store by the first room's functions is written by the second

if TYPE_CHECKING:
    from dalembert import measure
    from dalembert.boundary import Extremals, Free, Nodes, On, Periodic, multistart, solve, solve_batch, spline
    from dalembert.claims import Claim, Finding, Verdict, verdict
    from dalembert.control import Lobatto, OptimalControl, eliminate, refine, singular_arcs
    from dalembert.discretize import (
        Averaged,
        Beta,
        Central,
        DiscreteSystem,
        Hermite,
        Interpolated,
        PairMap,
        Points,
        Redefined,
        Scheme,
        SchemeClaims,
        TripleMap,
        WindowMap,
        energies,
        redefined,
        with_time,
    )
    from dalembert.drawing import Ball, Body, Dots, Rod, Wheel
    from dalembert.guidance import (
        ClosedLoop,
        Controllability,
        Derivatives,
        Feedback,
        Optimum,
        PredictiveController,
        Replanned,
        Sensitivity,
        closed_loop,
        controllability,
        feedback,
        mpc,
        optimum,
        sensitivity,
    )
    from dalembert.interrupts import Interrupted
    from dalembert.laws import ControlLaw, EnergyShaping, Matching, control_law, energy_shaping, matching
    from dalembert.outcome import Outcome
    from dalembert.path import Path, Provenance, Statistics, StepError, Study
    from dalembert.show import Animation, animate, page, plot
    from dalembert.solution import (
        ActiveBounds,
        BoundaryStatistics,
        ControlSolution,
        FinalTime,
        Refinement,
        Solution,
        SolveError,
    )
    from dalembert.step import (
        Avoid,
        Branch,
        Least,
        Nearest,
        PreparedRun,
        Root,
        SampledFeedback,
        StepProgram,
        Varying,
        ensemble,
        prepare,
        roots,
        simulate,
        simulate_free_steps,
    )
    from dalembert.store import FileError, from_xarray, load, matches, save, to_xarray
    from dalembert.studies import resume, run_statistics, sweep
    from dalembert.symbolic import SymbolicEquations, from_sympy, symbolic_equations
    from dalembert.symmetry import FullMotion, Reduced, Symmetries, Symmetry, TurnedReduction, chaplygin, routh, symmetries
    from dalembert.systems import (
        AdaptedReference,
        Connection,
        Constraint,
        Holonomic,
        InconsistentDataError,
        Independent,
        Interpolant,
        Lyapunov,
        Nonholonomic,
        Ostrogradsky,
        Projection,
        RankDeficientError,
        Reduction,
        Reference,
        SecondOrder,
        Solvability,
        System,
        VariationalProblem,
        acceleration,
        adapted_reference,
        connection,
        deformed,
        energy,
        independent,
        interpolant,
        manifolds,
        momentum,
        ostrogradsky,
        project,
        reduction,
        reference,
        references,
        solvability,
    )

else:

    def __getattr__(name):
        """A room, or a public name, which stands in the first room from below that has it."""
        if name in ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        for room in ROOMS if name in __all__ else ():
            found = importlib.import_module(f"{__name__}.{room}")
            if name in getattr(found, "__all__", dir(found)):  # a room's module may have the name of another room's function
                if room in DOORS:
                    importlib.import_module(f"{__name__}.{DOORS[room]}")
                return globals().setdefault(name, getattr(found, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__, *ROOMS})


__version__ = "0.1.0"

__all__ = [
    "ActiveBounds",
    "AdaptedReference",
    "Animation",
    "Averaged",
    "Avoid",
    "Ball",
    "Beta",
    "Body",
    "BoundaryStatistics",
    "Branch",
    "Central",
    "Claim",
    "ClosedLoop",
    "Connection",
    "Constraint",
    "ControlLaw",
    "ControlSolution",
    "Controllability",
    "Derivatives",
    "DiscreteSystem",
    "Dots",
    "EnergyShaping",
    "Extremals",
    "Feedback",
    "FileError",
    "FinalTime",
    "Finding",
    "Free",
    "FullMotion",
    "Hermite",
    "Holonomic",
    "InconsistentDataError",
    "Independent",
    "Interpolant",
    "Interpolated",
    "Interrupted",
    "Least",
    "Lobatto",
    "Lyapunov",
    "Matching",
    "Nearest",
    "Nodes",
    "Nonholonomic",
    "On",
    "OptimalControl",
    "Optimum",
    "Ostrogradsky",
    "Outcome",
    "PairMap",
    "Path",
    "Periodic",
    "Points",
    "PredictiveController",
    "PreparedRun",
    "Projection",
    "Provenance",
    "RankDeficientError",
    "Redefined",
    "Reduced",
    "Reduction",
    "Reference",
    "Refinement",
    "Replanned",
    "Rod",
    "Root",
    "SampledFeedback",
    "Scheme",
    "SchemeClaims",
    "SecondOrder",
    "Sensitivity",
    "Solution",
    "Solvability",
    "SolveError",
    "Statistics",
    "StepError",
    "StepProgram",
    "Study",
    "SymbolicEquations",
    "Symmetries",
    "Symmetry",
    "System",
    "TripleMap",
    "TurnedReduction",
    "VariationalProblem",
    "Varying",
    "Verdict",
    "Wheel",
    "WindowMap",
    "acceleration",
    "adapted_reference",
    "animate",
    "chaplygin",
    "closed_loop",
    "connection",
    "control_law",
    "controllability",
    "deformed",
    "eliminate",
    "energies",
    "energy",
    "energy_shaping",
    "ensemble",
    "feedback",
    "from_sympy",
    "from_xarray",
    "independent",
    "interpolant",
    "load",
    "manifolds",
    "matches",
    "matching",
    "measure",
    "momentum",
    "mpc",
    "multistart",
    "optimum",
    "ostrogradsky",
    "page",
    "plot",
    "prepare",
    "project",
    "redefined",
    "reduction",
    "reference",
    "references",
    "refine",
    "resume",
    "roots",
    "routh",
    "run_statistics",
    "save",
    "sensitivity",
    "simulate",
    "simulate_free_steps",
    "singular_arcs",
    "solvability",
    "solve",
    "solve_batch",
    "spline",
    "sweep",
    "symbolic_equations",
    "symmetries",
    "to_xarray",
    "verdict",
    "with_time",
]
