"""The command line: list, run, order and reproduce, on gallery names and on `file.py:name`."""

from dalembert.cli.commands import app, main

__all__ = ["app", "main"]
