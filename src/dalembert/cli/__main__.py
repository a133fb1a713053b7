"""python -m dalembert.cli: the command `dalembert` where it is not installed."""

from dalembert.cli import main

main()
