"""What the theory promises, checked on a system, a scheme and a start. Begin with `verdict`; one module for each kind of claim."""

from dalembert.claims.claim import Claim, Finding, Verdict
from dalembert.claims.verdict import verdict

__all__ = ["Claim", "Finding", "Verdict", "verdict"]
