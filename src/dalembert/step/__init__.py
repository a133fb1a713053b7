"""Initial value problems: starters, the choice of a root, the step as data, and the run."""

from dalembert.step.ensembles import ensemble
from dalembert.step.free_steps import simulate_free_steps
from dalembert.step.programs.base import Outputs, StepProgram
from dalembert.step.programs.varying import Varying
from dalembert.step.run.branch import Avoid, Branch, Least, Nearest
from dalembert.step.run.state import SampledFeedback
from dalembert.step.simulation import PreparedRun, prepare, run_program, simulate
from dalembert.step.step_roots import Root, roots

__all__ = [
    "Avoid",
    "Branch",
    "Least",
    "Nearest",
    "Outputs",
    "PreparedRun",
    "Root",
    "SampledFeedback",
    "StepProgram",
    "Varying",
    "ensemble",
    "prepare",
    "roots",
    "run_program",
    "simulate",
    "simulate_free_steps",
]
