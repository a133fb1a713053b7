"""Boundary problems: windows stacked into a KKT system, its KKT equations solved by a globalised Newton method."""

from dalembert.boundary.batch import solve_batch
from dalembert.boundary.data.end_sets import On, Periodic
from dalembert.boundary.data.ends import Nodes, Request, TimeGrid
from dalembert.boundary.data.free_time import Free
from dalembert.boundary.kinds import Asked, extremal, smooth_start
from dalembert.boundary.kkt.assembly import CompiledAssembly, Elements, JaxAssembly, Term
from dalembert.boundary.kkt.linear import BandedFactors, FrontalFactors, LinearSolver, inertia_of, own_pivots
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.kkt.transcription import first_values, transcribe
from dalembert.boundary.kkt.window_unknowns import Transcription
from dalembert.boundary.newton import BoundaryNewton, Iterate, Settings, Termination
from dalembert.boundary.prepare import prepare_problem
from dalembert.boundary.solver import check_seek, settings, solve
from dalembert.boundary.splines import spline
from dalembert.boundary.starts import Extremals, multistart

__all__ = ["Extremals", "Free", "Nodes", "On", "Periodic", "multistart", "solve", "solve_batch", "spline"]
