"""Path inequalities and bounds on velocities of variational problems and splines, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

RADIUS, CENTRE = 0.2, np.array([0.5, -0.01])
STRING = da.VariationalProblem(lambda q, v, p: 0.5 * v @ v, parameters={"r": RADIUS})
BEAM = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
ACROSS = {"initial": ([0.0, 0.0],), "final": ([1.0, 0.0],), "T": 1.0}
REST_TO_REST = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "T": 1.0}


def disc(q, v, p):
    return p["r"] ** 2 - jnp.sum((q - CENTRE) ** 2)


def around(radius):
    """The length of the shortest way around the disc, above it: two tangents and an arc."""
    (a, b), tangents, arc = (np.array([[0.0, 0.0], [1.0, 0.0]]) - CENTRE), 0.0, 0.0
    arc = np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    if a[0] * b[1] - a[1] * b[0] > 0.0:  # the centre lies above the line
        arc = 2.0 * np.pi - arc
    for x in (a, b):
        tangents += np.sqrt(x @ x - radius**2)
        arc -= np.arccos(radius / np.linalg.norm(x))
    return tangents + radius * arc


def strung(steps, problem=STRING, shift=0.0, **given):
    """Above the disc."""
    s = np.linspace(0.0, 1.0, steps + 1)
    above = np.stack([s, 0.4 * np.sin(np.pi * s)], axis=1) + shift
    return da.solve(problem, steps=steps, **ACROSS | {"inequalities": disc, "guess": above} | given)


@pytest.fixture(scope="module")
def strings():
    return [strung(steps) for steps in (20, 40, 80)]


def test_a_string_around_a_disc_has_the_length_of_two_tangents_and_an_arc(strings):
    """min ½∫v² over T = 1 is ½ of the squared length; v is constant; of order 2."""
    exact = 0.5 * around(RADIUS) ** 2
    errors = [abs(float(s.action) - exact) for s in strings]
    assert errors[2] < 5e-5
    assert 1.6 < np.log2(errors[0] / errors[2]) / 2.0 < 2.4
    fine = strings[2]
    assert fine.kind == "minimum"
    np.testing.assert_allclose(np.linalg.norm(np.diff(fine.q, axis=0), axis=1) * 80, around(RADIUS), rtol=2e-3)


def test_what_reads_positions_holds_at_the_nodes(strings):
    found = strings[1].bounds["inequalities"]
    np.testing.assert_array_equal(found.t, strings[1].t)
    np.testing.assert_allclose(found.values[:, 0], [disc(q, None, {"r": RADIUS}) for q in strings[1].q], rtol=0, atol=1e-9)
    assert found.values.max() <= 1e-9
    assert np.all(found.multipliers[found.active == 0] < 1e-3)
    assert np.all(found.multipliers >= -1e-9)
    distance = np.linalg.norm(strings[1].q - CENTRE, axis=1)
    np.testing.assert_array_equal(found.active[:, 0] == 1, distance < RADIUS + 1e-6)


def test_its_multipliers_are_the_gradient_of_the_action(strings):
    """g = r² - …: raising r² by d costs Σ h μ d, r being a parameter of the problem that g reads."""
    found = strings[1].bounds["inequalities"]
    slope = 2.0 * RADIUS * float(found.multipliers.sum()) / 40
    both = [strung(40, STRING.replace(r=r)) for r in (RADIUS + 1e-4, RADIUS - 1e-4)]
    assert float(both[0].action - both[1].action) / 2e-4 == pytest.approx(slope, rel=1e-4)


def test_positions_counted_from_afar_give_the_same(strings):
    near, shift = strings[0], np.array([1e6, -3e5])
    ends = {
        "initial": (shift,),
        "final": (shift + np.array([1.0, 0.0]),),
        "inequalities": lambda q, v, p: disc(q - shift, v, p),
    }
    far = strung(20, shift=shift, **ends)
    np.testing.assert_allclose(far.q - shift, near.q, rtol=0, atol=1e-7)
    assert float(far.action) == pytest.approx(float(near.action), rel=1e-9)


def test_a_beam_with_a_bounded_velocity():
    """u falls linearly to 0 at a, v = V(1 - (1-t/a)²) there, and V(1 - 2a/3) = 1; the cost is 4V²/3a."""
    limit, cost = 1.25, 6.0 + 17.0 / 18.0
    found = [da.solve(BEAM, **REST_TO_REST, steps=n, bounds={"v": (None, limit)}) for n in (40, 80, 160)]
    ramp = 1.5 * (1.0 - 1.0 / limit)
    assert 4.0 * limit**2 / (3.0 * ramp) == pytest.approx(cost)
    errors = [abs(float(s.action) - cost) for s in found]
    assert errors[2] < 2e-3
    assert np.log2(errors[0] / errors[2]) / 2.0 == pytest.approx(2.0, abs=0.1)
    fine, bounds = found[2], found[2].bounds["v"]
    assert fine.kind == "minimum"
    np.testing.assert_allclose(bounds.t[1:-1], 0.5 * (fine.t[1:] + fine.t[:-1]))
    np.testing.assert_allclose(bounds.values[1:-1, 0], np.diff(fine.q[:, 0]) * 160, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fine.switches("v")[0], [ramp, 1.0 - ramp], rtol=0, atol=0.02)
    same = da.solve(BEAM, **REST_TO_REST, steps=40, inequalities=lambda q, v: v - limit)
    np.testing.assert_allclose(same.q, found[0].q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(same.bounds["inequalities"].multipliers, found[0].bounds["v"].multipliers, rtol=0, atol=1e-4)


def test_multipliers_of_velocities_do_not_alternate():
    """μ is linear where v is on its bound: 2u' would jump otherwise."""
    fine = da.solve(BEAM, **REST_TO_REST, steps=80, bounds={"v": (None, 1.25)}).bounds["v"]
    on = fine.multipliers[fine.active[:, 0] == 1, 0]
    assert len(on) > 20
    assert np.abs(np.diff(on[1:-1], 2)).max() < 0.05 * np.abs(on).max()


def test_hermite_windows_bound_the_velocities_of_nodes():
    """Between nodes v is a parabola; at the nodes the bound holds, and the closed form comes closer with the mesh."""
    errors = []
    for steps in (20, 40):
        found = da.solve(BEAM, **REST_TO_REST, steps=steps, scheme=da.Hermite(), bounds={"v": (None, 1.25)})
        np.testing.assert_array_equal(found.bounds["v"].t, found.t)
        assert found.v.max() <= 1.25 + 1e-9
        errors.append(abs(float(found.action) - 6.0 - 17.0 / 18.0))
    assert errors[1] < 0.5 * errors[0] < 0.02


def test_a_geodesic_keeps_out_of_a_cap():
    """Past a cap of angle α, between points β from its middle: two great arcs that touch it, and an arc of its rim."""
    alpha, beta = 0.4, 0.8
    tangent, turn = np.arccos(np.cos(beta) / np.cos(alpha)), np.arccos(np.tan(alpha) / np.tan(beta))
    length = 2.0 * tangent + (np.pi - 2.0 * turn) * np.sin(alpha)

    def over(t):
        """A way past the cap."""
        s = np.stack([np.cos(beta * (2 * t - 1)), np.sin(beta * (2 * t - 1)), np.sin(np.pi * t)], axis=1)
        return s / np.linalg.norm(s, axis=1, keepdims=True)

    ends = {t: [np.cos(beta), sign * np.sin(beta), 0.0] for t, sign in ((0.0, -1.0), (1.0, 1.0))}
    errors = []
    for steps in (20, 40):
        found = da.spline(
            da.manifolds.sphere(),
            ends,
            derivatives=1,
            steps=steps,
            guess=over,
            inequalities=lambda q, v: q[0] - np.cos(alpha),
        )
        assert found.kind == "minimum"
        errors.append(abs(float(found.action) - 0.5 * length**2))
    assert errors[1] < 2e-3
    assert errors[1] < 0.5 * errors[0]


def test_batches_and_multistarts_keep_the_inequalities(strings):
    guesses = np.stack([strings[0].q, strings[0].q + [[0.0, 0.01]] * 21])
    given = {"T": 1.0, "steps": 20, "inequalities": disc, "bounds": {"q": {1: (None, 1.0)}}}
    ends = {"initial": (np.zeros((2, 2)),), "final": (np.array([[1.0, 0.0]] * 2),)}
    for found in da.solve_batch(STRING, **ends, **given, guess=guesses):
        np.testing.assert_allclose(found.q, strings[0].q, rtol=0, atol=1e-6)
        assert found.bounds.keys() == {"inequalities", "q"}
    several = da.multistart(STRING, guesses, initial=([0.0, 0.0],), final=([1.0, 0.0],), T=1.0, steps=20, inequalities=disc)
    assert several.hits == [2]
    assert float(several.solutions[0].action) == pytest.approx(float(strings[0].action), rel=1e-9)
    for call in (da.solve_batch, da.multistart):
        with pytest.raises(ValueError, match="seek: found 'extremal' together with inequalities"):
            call(STRING, initial=([0.0, 0.0],), final=([1.0, 0.0],), T=1.0, steps=20, inequalities=disc, seek="extremal")


def test_a_solution_under_inequalities_is_a_warm_start(strings):
    again = strung(20, guess=strings[0])
    assert int(again.statistics.iterations) <= 5
    np.testing.assert_allclose(again.q, strings[0].q, rtol=0, atol=1e-8)
    refined = strung(40, guess=strings[0])
    assert float(refined.action) == pytest.approx(float(strings[1].action), rel=1e-9)


def test_inequalities_are_stored_drawn_and_described(strings, tmp_path):
    for name, found in (
        ("g.nc", strings[0]),
        ("v.nc", da.solve(BEAM, **REST_TO_REST, steps=20, bounds={"v": (-1.0, 1.25)})),
    ):
        da.save(found, tmp_path / name)
        read = da.load(tmp_path / name)
        jax.tree.map(np.testing.assert_array_equal, found, read)
        assert read.describe() == found.describe()
    assert "bounds on inequalities: " in strings[0].describe()
    panel = next(ax for ax in da.plot(strings[0]).axes if ax.get_ylabel() == "g")
    assert [set(line.get_ydata()) for line in panel.lines if line.get_linestyle() == "--"] == [{0.0}]


@pytest.mark.parametrize(
    ("inequalities", "error", "message"),
    [
        (3.0, TypeError, "inequalities: found 3.0"),
        (lambda q: q[0], TypeError, "inequalities"),
        (lambda q, v, p: 1 if q is None else 0, TypeError, "inequalities: returns int"),
        (lambda q, v, p: jnp.outer(q, v), ValueError, r"inequalities: returns shape \(2, 2\); give \(\) or \(m,\)"),
        (lambda q, v, p: q[5], ValueError, "inequalities: reads index 5 of an array of 2"),
        (lambda q, v, p: 0.5 - q[0], ValueError, r"inequalities: g\[0\] = 0.5 > 0 for the data given at t = 0 \(initial\)"),
    ],
)
def test_inequalities_that_cannot_be_used_are_named_before_anything_is_solved(inequalities, error, message):
    with pytest.raises(error, match=message):
        da.solve(STRING, **ACROSS, steps=20, inequalities=inequalities)


def test_a_velocity_that_is_given_outside_its_bounds_is_named():
    with pytest.raises(ValueError, match=r"bounds\['v'\]: found v\[0\] = 2 given at t = 0 \(initial\), outside \[-1, 1\]"):
        da.solve(BEAM, initial=([0.0], [2.0]), final=([0.0], [0.0]), T=1.0, steps=20, bounds={"v": (-1.0, 1.0)})


def test_a_given_end_may_lie_on_its_bound():
    """v(0) = 1.25 is on it, and so is q of an end on the rim of the disc."""
    found = da.solve(BEAM, initial=([0.0], [1.25]), final=([1.0], [0.0]), T=1.0, steps=40, bounds={"v": (None, 1.25)})
    assert found.kind == "minimum"
    assert float(found.bounds["v"].values.max()) <= 1.25 + 1e-9
    rim = CENTRE + np.array([0.0, RADIUS])
    found = strung(20, initial=(rim,), guess=None)
    assert found.kind == "minimum"
