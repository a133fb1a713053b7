"""Sums of products of sines and cosines as one function of an angle."""

import numpy as np
import pytest

from dalembert.native import Graph, evaluate, with_angles

SINES, COSINES = ("sin", "sin"), ("cos", "cos")


@pytest.mark.parametrize(
    ("op", "first", "second", "angles", "becomes"),
    [
        ("add", SINES, COSINES, "aa", "const"),
        ("add", COSINES, SINES, "aa", "const"),
        ("add", COSINES, SINES, "as", "cos"),
        ("add", SINES, COSINES, "sa", "cos"),
        ("sub", ("sin", "cos"), ("cos", "sin"), "sa", "sin"),
        ("sub", ("sin", "cos"), ("cos", "sin"), "as", "sin"),
        ("sub", ("cos", "sin"), ("sin", "cos"), "sa", "sin"),
        ("add", SINES, COSINES, "ab", "add"),  # cos (a - b), but nobody has a - b
        ("sub", COSINES, SINES, "sa", "sub"),  # of the sum of the angles
        ("sub", COSINES, SINES, "aa", "sub"),
        ("add", ("sin", "cos"), ("cos", "sin"), "sa", "add"),
        ("sub", SINES, COSINES, "aa", "sub"),
    ],
)
@pytest.mark.parametrize("minus", [False, True])
def test_values_stay_and_operations_go(op, first, second, angles, becomes, minus):
    """Angles a, b and s = a + b. minus: of the first product; then sums are differences, and the reverse."""
    g = Graph()
    a, b = (g.variable("x", i) for i in range(2))
    of = {"a": a, "b": b, "s": g.apply("add", a, b)}
    one, other = (
        g.apply("mul", *(g.apply(name, of[angle]) for name, angle in zip(pair, angles, strict=True)))
        for pair in (first, second)
    )
    whole = g.raw("sub" if op == "add" else "add", g.raw("neg", one), other) if minus else g.apply(op, one, other)
    (found,) = with_angles(g, [whole])
    x = {"x": np.array([0.7, 1.9])}
    np.testing.assert_allclose(evaluate(g, [found], x), evaluate(g, [whole], x), rtol=0, atol=1e-14)
    if not minus:
        assert g.nodes[found][0] == becomes
    elif op == "add" and becomes in ("const", "cos"):
        assert len(g.nodes[found]) == 2  # -1, or the sign of a cosine
