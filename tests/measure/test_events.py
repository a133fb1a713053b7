"""Events between the steps: a pendulum's quarter periods, known by elliptic integrals, to the order of the scheme."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk, ellipkinc

import dalembert as da
from dalembert.measure import events

PENDULUM = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))
ROD = da.System(lambda q, v: 0.5 * v @ v - q[1], da.Holonomic(lambda q: q @ q - 1.0))  # the same motion
FREE = da.System(lambda q, v, t: 0.5 * v @ v, time_dependent=True)
QUARTER = ellipk(np.sin(0.5) ** 2)  # of the period, from 1 radian at rest


def across(q, v):
    return q[0]


def swings(steps, order=2, time=6.0):
    return da.simulate(PENDULUM, [1.0], [0.0], h=time / steps, steps=steps, scheme=da.Scheme(order=order))


@pytest.mark.parametrize("order", [2, 4, 8])
def test_times_have_the_order_of_the_scheme(order):
    """At every crossing; and there g is zero, not only small."""
    errors = []
    for n in (20, 40):
        found = events(PENDULUM, swings(n, order), across, scheme=da.Scheme(order=order))
        assert found.direction.tolist() == [-1, 1]
        assert abs(found.q).max() < 1e-12
        errors.append(abs(found.t - [QUARTER, 3 * QUARTER]).max())
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.2, errors


def test_states_of_events_are_on_the_constraints_and_go_on():
    """Two halves of a run, cut at an event, have the order of the whole."""
    start, errors = ([np.sin(1.0), -np.cos(1.0)], [0.0, 0.0]), []
    for n in (20, 40):
        path = da.simulate(ROD, *start, h=3.0 / n, steps=n)
        found = events(ROD, path, across, direction=-1)
        (q,), (v,) = found.q, found.v
        assert abs(q @ q - 1.0) < 1e-14
        assert abs(q @ v) < 1e-14
        rest = da.simulate(ROD, q, v, h=QUARTER / n, steps=n, t0=found.t[0])
        errors.append(abs(rest.q[-1] - np.array([-np.sin(1.0), -np.cos(1.0)])).max() + abs(found.t[0] - QUARTER))
        assert events(ROD, rest, across).t.size == 0  # not the one that it begins with
    assert 1.8 < np.log2(errors[0] / errors[1]) < 2.2


@pytest.mark.parametrize("off", [1e-17, -1e-17, 3e-16])
def test_a_run_that_begins_at_an_event_but_for_rounding(off):
    """Also far from the origin, where rounding of the position is larger; a beginning well before the event has it."""
    for origin in (0.0, 1e3):
        free = da.System(lambda q, v: 0.5 * v @ v)
        level = lambda q, v, c=origin: q[0] - c  # noqa: E731
        path = da.simulate(free, [origin + off * max(1.0, origin)], [1.0], h=0.1, steps=4)
        assert events(free, path, level).t.size == 0
        before = da.simulate(free, [origin - 1e-9], [1.0], h=0.1, steps=4)
        np.testing.assert_allclose(events(free, before, level).t, [1e-9], rtol=1e-3)


def test_velocities_between_nodes_are_interpolated():
    """Also a function of the velocity: of order 2 at least."""
    scheme, errors = da.Scheme("nodes"), []
    for n in (40, 80):
        path = da.simulate(PENDULUM, [1.0], [0.0], h=4.0 / n, steps=n, scheme=scheme)
        crossing, fast = (events(PENDULUM, path, g, scheme=scheme) for g in (across, lambda q, v: v[0] + 0.5))
        when = QUARTER - ellipkinc(np.arccos(0.25 / np.sin(0.5)), np.sin(0.5) ** 2)  # v = -2k cn(QUARTER - t)
        errors.append([abs(crossing.t[0] - QUARTER), abs(fast.t[0] - when)])
    orders = np.log2(np.array(errors[0]) / errors[1])
    assert np.all(orders > 1.7), orders
    assert np.all(np.array(errors[1]) < 3e-3)


def test_two_changes_in_one_step():
    """Just before and after the turning point, 0.14 apart in a step of 0.2, symmetric to it; backwards too."""
    path = swings(40, time=8.0)
    found = events(PENDULUM, path, lambda q, v: q[0] + 0.998)
    middle = found.t.mean()
    again = events(PENDULUM, path, lambda q, v: v[0], direction=1)
    assert found.direction.tolist() == [-1, 1]
    assert middle == pytest.approx(again.t[0], abs=1e-3)
    near = da.simulate(PENDULUM, path.q[16], path.v[16], t0=float(path.t[16]), h=0.06, steps=1)
    shifted = da.simulate(PENDULUM, near.q[-1], near.v[-1], t0=float(near.t[-1]), h=0.2, steps=4)
    both = events(PENDULUM, shifted, lambda q, v: q[0] + 0.998)
    assert both.step.tolist() == [0, 0]
    np.testing.assert_allclose(both.t, found.t, rtol=0, atol=3e-3)
    back = da.simulate(PENDULUM, path.q[-1], path.v[-1], t0=path.t[-1], h=-0.2, steps=40)
    there, reverse = (events(PENDULUM, p, lambda q, v: q[0] + 0.5) for p in (path, back))
    np.testing.assert_allclose(reverse.t[::-1], there.t, rtol=0, atol=1e-3)  # steps of parts of the length, from either end
    assert reverse.direction.tolist() == (-there.direction[::-1]).tolist()


def test_zeros_at_nodes_and_explicit_time():
    """q = t - 1 is exact here: a zero at a node is one event, at the end too, and none at the beginning or if g touches."""
    place = lambda q, v, t: q[0]  # noqa: E731
    path = da.simulate(FREE, [-1.0], [1.0], h=0.25, steps=8)
    found = events(FREE, path, place)
    assert (found.t.tolist(), found.direction.tolist(), found.q.shape) == ([1.0], [1], (1, 1))
    assert events(FREE, da.simulate(FREE, [-1.0], [1.0], h=0.25, steps=4), place).t.tolist() == [1.0]
    assert events(FREE, da.simulate(FREE, [0.0], [1.0], h=0.25, steps=4, t0=1.0), place).t.size == 0
    assert events(FREE, path, lambda q, v, t: q[0] ** 2).t.size == 0
    assert events(FREE, path, place, direction=-1).q.shape == (0, 1)
    clock = events(FREE, path, lambda q, v, t: (t - 0.6) * (t - 1.9))
    np.testing.assert_allclose(clock.t, [0.6, 1.9], rtol=0, atol=1e-14)


def test_what_is_wrong_is_named():
    path = swings(8)
    for g, words in ((lambda q, v: q, r"g: returns shape \(1,\)"), (lambda q, v: jnp.log(q[0]), "g: is nan on the path")):
        with pytest.raises(ValueError, match=words):
            events(PENDULUM, path, g)
    with pytest.raises(ValueError, match="scheme: the path was not made"):
        events(PENDULUM, path, across, scheme=da.Scheme(order=4))
    thinned = da.simulate(PENDULUM, [1.0], [0.0], h=0.1, steps=20, save=da.Save(every=5))
    with pytest.raises(ValueError, match="path: saved states are up to"):
        events(PENDULUM, thinned, across)
