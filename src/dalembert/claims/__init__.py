"""What the theory promises, checked on a system, a scheme and a start. Begin with `judge`; one module per kind of claim."""

from dalembert.claims.claim import Claim, Finding, Verdict
from dalembert.claims.judge import verdict

__all__ = ["Claim", "Finding", "Verdict", "verdict"]
