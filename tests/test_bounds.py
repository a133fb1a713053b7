"""What is written as a bound is the bound: `assert_allclose` adds a relative 1e-7 to an `atol` that stands alone."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def alone(source: str) -> list[int]:
    """Lines of calls with an absolute bound and no word about the relative one; compared with 0 that one is nothing."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("assert_allclose") and len(call.args) == 2:
            names = {keyword.arg for keyword in call.keywords}
            if "atol" in names and "rtol" not in names and ast.unparse(call.args[1]) not in ("0", "0.0"):
                found.append(call.lineno)
    return found


def test_an_absolute_bound_says_what_the_relative_one_is():
    files = sorted(TESTS.rglob("*.py"))
    found = [f"{path.relative_to(TESTS)}:{line}" for path in files for line in alone(path.read_text(encoding="utf-8"))]
    assert found == [], "write rtol=0 beside atol, or what else is meant"


def test_a_bound_alone_is_found():
    assert alone("np.testing.assert_allclose(a, b, atol=1e-12)\nassert_allclose(a, 0.0, atol=1)") == [1]
    assert alone("np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)\nnp.testing.assert_allclose(a, b)") == []
