"""The command line, `dalembert`, on gallery names and on `file.py:name`; `application` says what its commands share."""

from dalembert.cli import commands  # which register themselves
from dalembert.cli.application import app, main

__all__ = ["app", "main"]
