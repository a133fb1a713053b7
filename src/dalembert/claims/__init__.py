"""Promises of the theory, checked on a system, a scheme and a start. Begin with `judge`; one module per kind of claim."""

from dalembert.claims.judge import verdict
from dalembert.claims.subject import Claim, Finding, Verdict

__all__ = ["Claim", "Finding", "Verdict", "verdict"]
