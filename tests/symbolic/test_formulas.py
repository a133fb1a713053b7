"""SymPy's expressions as systems, and systems as SymPy's expressions."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from sympy.physics.mechanics import LagrangesMethod, Lagrangian, Particle, Point, ReferenceFrame, dynamicsymbols

import dalembert as da
from dalembert.systems import acceleration

g, length, mass = sympy.symbols("g length mass")
theta, x = dynamicsymbols("theta x")
TIME = dynamicsymbols._t


@pytest.fixture(scope="module")
def cart():
    """A pendulum on a cart, derived by sympy.physics.mechanics."""
    frame, origin = ReferenceFrame("N"), Point("O")
    origin.set_vel(frame, 0)
    pivot = origin.locatenew("P", x * frame.x)
    pivot.set_vel(frame, x.diff() * frame.x)
    bob = pivot.locatenew("B", length * (sympy.sin(theta) * frame.x - sympy.cos(theta) * frame.y))
    bob.set_vel(frame, bob.pos_from(origin).dt(frame))
    wagon, weight = Particle("wagon", pivot, 2 * mass), Particle("weight", bob, mass)
    weight.potential_energy = -mass * g * length * sympy.cos(theta)
    return Lagrangian(frame, wagon, weight)


VALUES = {g: 9.81, length: 0.7, mass: 1.3}


@pytest.fixture(scope="module")
def system(cart):
    return da.from_sympy(cart, [x, theta], parameters=VALUES, forces=[-x.diff() / 10, sympy.sin(TIME)])


def test_accelerations_are_those_of_lagranges_method(cart, system):
    """LagrangesMethod derives mass matrix and forcing on its own."""
    method = LagrangesMethod(cart, [x, theta])
    method.form_lagranges_equations()
    state = {x: 0.3, theta: 0.8, x.diff(): -0.4, theta.diff(): 1.1}
    put = lambda m: np.array(m.subs(state).subs(VALUES), dtype=float)  # noqa: E731
    expected = np.linalg.solve(put(method.mass_matrix), put(method.forcing)[:, 0] + [0.04, np.sin(0.5)])
    a, *_ = acceleration(system, jnp.array([0.3, 0.8]), jnp.array([-0.4, 1.1]), 0.5)
    np.testing.assert_allclose(a, expected, rtol=1e-13)


def test_a_lagranges_method_brings_constraints_and_forces_along():
    """A rod on a block, a holonomic and a nonholonomic constraint, a force at a point and a moment on a frame."""
    y = dynamicsymbols("y")
    frame, origin = ReferenceFrame("N"), Point("O")
    origin.set_vel(frame, 0)
    turned = frame.orientnew("A", "Axis", [theta, frame.z])
    tip = origin.locatenew("T", x * frame.x + y * frame.y + length * turned.y)
    tip.set_vel(frame, tip.pos_from(origin).dt(frame))
    action = (mass * (x.diff() ** 2 + y.diff() ** 2 + length**2 * theta.diff() ** 2) - 2 * g * mass * y) / 2
    loads = [(tip, -3 * frame.x + x * frame.y), (turned, 2 * frame.z)]
    bonds = {"hol_coneqs": [x - y**2], "nonhol_coneqs": [theta.diff() - x.diff() * sympy.cos(theta)]}
    method = LagrangesMethod(action, [x, y, theta], forcelist=loads, frame=frame, **bonds)
    made = da.from_sympy(method, parameters=VALUES)
    method.form_lagranges_equations()
    state = {x: 0.25, y: 0.5, theta: 0.8, x.diff(): 0.4, y.diff(): 0.4, theta.diff(): 0.4 * np.cos(0.8)}
    put = lambda m: np.array(m.subs(state).subs(VALUES), dtype=float)  # noqa: E731
    expected = np.linalg.solve(put(method.mass_matrix_full), put(method.forcing_full)[:, 0])[3:6]
    a, *_ = acceleration(made, jnp.array([0.25, 0.5, 0.8]), jnp.array([0.4, 0.4, 0.4 * np.cos(0.8)]))
    np.testing.assert_allclose(a, expected, rtol=1e-12)
    assert [type(c) for c in made.constraints] == [da.Holonomic, da.Nonholonomic]
    with pytest.raises(ValueError, match="belong to the LagrangesMethod"):
        da.from_sympy(method, [x, y, theta], parameters=VALUES)


def test_the_equations_of_what_came_from_sympy_are_those_of_sympy(cart, system):
    """There and back through JAX and the graph."""
    method = LagrangesMethod(cart, [x, theta])
    own = method.form_lagranges_equations() - sympy.Matrix([-x.diff() / 10, sympy.sin(TIME)])
    found = sympy.Matrix(system.equations().motion)
    assert sympy.simplify(found - own) == sympy.zeros(2, 1)


def test_a_path_is_that_of_the_functions_written_by_hand(system):
    def lagrangian(q, v, t, p):
        m, r = p["mass"], p["length"]
        kinetic = 1.5 * m * v[0] ** 2 + 0.5 * m * r**2 * v[1] ** 2 + m * r * jnp.cos(q[1]) * v[0] * v[1]
        return kinetic + m * p["g"] * r * jnp.cos(q[1])

    by_hand = da.System(
        lagrangian, forces=lambda q, v, t, p: jnp.array([-v[0] / 10, jnp.sin(t)]), coordinates=("x", "theta"),
        parameters={str(s): value for s, value in VALUES.items()}, time_dependent=True,
    )  # fmt: skip
    run = {"q0": [0.0, 0.9], "v0": [0.1, 0.0], "h": 0.01, "steps": 200}
    np.testing.assert_allclose(da.simulate(system, **run).q, da.simulate(by_hand, **run).q, rtol=0, atol=1e-12)


def test_the_kind_of_a_constraint_is_its_highest_derivative():
    y = dynamicsymbols("y")
    made = da.from_sympy(
        (x.diff() ** 2 + y.diff() ** 2 + theta.diff() ** 2) / 2,
        [x, y, theta],
        [x - sympy.sin(y), theta.diff() - x * y.diff(), x.diff(TIME, 2) - theta],
    )
    assert [type(c) for c in made.constraints] == [da.Holonomic, da.Nonholonomic, da.SecondOrder]
    assert made.constraints[1].phi(jnp.array([2.0, 0.0, 0.0]), jnp.array([0.0, 3.0, 1.0])) == 1.0 - 6.0
    assert not made.time_dependent


def test_a_system_of_expressions_travels_and_takes_other_values(system):
    again = pickle.loads(pickle.dumps(system)).replace(length=1.4)
    run = {"q0": [0.0, 0.9], "v0": [0.1, 0.0], "h": 0.01, "steps": 20}
    np.testing.assert_array_equal(da.simulate(again, **run).q, da.simulate(system.replace(length=1.4), **run).q)


def rows(q, v, p):
    """A Lyapunov servo, an array of parameters, a branch, a power, a loop."""
    spring = sum(p["k"][i] * q[i] ** 2 for i in range(2))
    return (
        0.5 * v @ (p["M"] @ v)
        - spring / jnp.sqrt(1.0 + q @ q)
        + jnp.where(q[0] > 0, jnp.log1p(q[0] ** 2), jnp.exp(q[1]) ** 1.5)
    )


def test_formulas_have_the_values_of_the_functions():
    parameters = {"M": np.array([[2.0, 0.3], [0.3, 1.0]]), "k": np.array([0.7, 1.9])}
    servo = da.Lyapunov(lambda q, v, p: 0.5 * v @ v + p["k"] @ q**2, lambda q, v, p: 0.3 * jnp.tanh(v) @ v, 1)
    made = da.System(rows, servo, coordinates=("x", "theta"), parameters=parameters)
    found = made.equations()
    names = {
        s: p for name, p in parameters.items() for s, p in zip(np.ravel(found.parameters[name]), p.ravel(), strict=True)
    }
    for q, v in (([0.4, -0.6], [0.3, 1.0]), ([-0.4, 0.2], [1.3, -1.0])):
        a, multiplier, _ = acceleration(made, jnp.array(q), jnp.array(v))
        state = {f.diff(TIME, j) if j else f: float(z[i]) for i, f in enumerate((x, theta)) for j, z in enumerate((q, v, a))}
        state |= {found.multipliers[0]: float(multiplier[0])}
        left = [
            e.subs(dict(sorted(state.items(), key=lambda s: -s[0].count(TIME)))).subs(names)
            for e in (*found.motion, *found.constraints)
        ]
        np.testing.assert_allclose(np.array([float(e.doit()) for e in left]), 0.0, atol=1e-12)


def test_a_notebook_typesets_a_small_system_and_describes_a_large_one(system):
    assert r"\ddot{\theta}" in system._repr_latex_()
    large = da.System(lambda q, v: 0.5 * v @ v + sum(jnp.sin(q[i] * q[j]) for i in range(40) for j in range(40)),
                      coordinates=tuple(f"x{i}" for i in range(40)))  # fmt: skip
    assert (large._repr_latex_(), system._repr_html_()) == (None, None)
    assert "x0, x1, x2" in large._repr_html_()
    spline = da.VariationalProblem(lambda q, v, a, p: p["c"] * a @ a, derivatives=2, parameters={"c": 0.25})
    assert "c = 0.25" in spline._repr_html_()
    assert "<lambda>" not in spline._repr_html_()  # as text, not as markup
    with pytest.raises(ValueError, match="more than 2000 scalar operations"):
        large.equations()


def test_virtual_displacements_have_no_formula():
    made = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[0] - v[1], virtual=lambda q, v: jnp.ones(2)),
                     coordinates=("x", "y"))  # fmt: skip
    with pytest.raises(ValueError, match=r"constraints\[0\] has virtual displacements; formulas need its reactions"):
        made.equations()


WRONG = {
    "no value": (lambda: da.from_sympy(theta.diff() ** 2 * mass, [theta]), "lagrangian: mass has no value"),
    "another function": (lambda: da.from_sympy(theta.diff() ** 2 + x, [theta]), "lagrangian: .* has no value"),
    "too high": (lambda: da.from_sympy(theta.diff(TIME, 2), [theta]), r"contains Derivative\(theta\(t\), \(t, 2\)\)"),
    "too few forces": (lambda: da.from_sympy(theta.diff() ** 2, [theta], forces=[]), "forces: found 0 expressions"),
    "a constant": (lambda: da.from_sympy(theta.diff() ** 2, [theta], [g], parameters={g: 1.0}), "without any coordinate"),
    "an equation": (lambda: da.from_sympy(theta.diff() ** 2, [theta], [sympy.Eq(theta, 1)]), "for an equation left - right"),
    "no names": (lambda: da.symbolic.symbolic_equations(da.System(lambda q, v: v @ v)), "n: the system has no names"),
    "a loop": (lambda: looping().equations(), "system: has no formula, because of .*"),
}  # fmt: skip


def looping():
    import jax

    return da.System(
        lambda q, v: jax.lax.while_loop(lambda z: z < 10.0, lambda z: z + 1.0, q[0]) * v @ v, coordinates=("x",)
    )


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG.keys())
def test_mistakes_are_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_branch_is_a_formula_with_its_condition():
    stiff = da.System(
        lambda q, v: 0.5 * v @ v - jax.lax.cond(q[0] > 0, lambda x: x**2, lambda x: x**4, q[0]), coordinates=("x",)
    )
    found = str(stiff.equations())
    assert "Piecewise((2*x(t), x(t) > 0), (4*x(t)**3, True))" in found
