"""The command line refines an optimal control, and says what it cannot refine."""

from typer.testing import CliRunner

from dalembert.cli import app


def call(*words, code):
    result = CliRunner().invoke(app, ["solve", *map(str, words)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def test_refine_prints_the_limit_and_its_error():
    """12 (1 - 2h²) and its limit; 1e-12 is beyond the solver."""
    found = call("double_integrator", "--steps", 40, "--refine", "1e-4", code=0)
    assert "limit of small steps 12.00" in found or "limit of small steps 11.99" in found
    assert "estimated error" in found
    assert "tolerance: found -1.0" in call("double_integrator", "--steps", 40, "--refine", "-1", code=2)
    assert "--refine: is for optimal control" in call("elastic_beam", "--steps", 10, "--refine", "1e-4", code=2)
