"""The command line: list, run, solve, order, check, page, animate and reproduce, on gallery names and on `file.py:name`."""

from dalembert.cli import commands, measurements, pictures  # noqa: F401, whose commands register themselves
from dalembert.cli.application import app, main

__all__ = ["app", "main"]
