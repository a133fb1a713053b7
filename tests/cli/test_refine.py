"""The command line says what it cannot refine."""

from typer.testing import CliRunner

from dalembert.cli import app


def call(*words, code):
    result = CliRunner().invoke(app, ["solve", *map(str, words)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def test_what_cannot_be_refined():
    """A tolerance that is none, a problem of another kind; a refinement that is reached is an example of the help."""
    assert "tolerance: found -1.0" in call("double_integrator", "--steps", 40, "--refine", "-1", code=2)
    assert "--refine: is for optimal control" in call("elastic_beam", "--steps", 10, "--refine", "1e-4", code=2)
