"""Andrews' squeezer of the IVP test set: seven bodies of a few centimetres, one degree of freedom, at rest and moving."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

# Masses in kg, moments of inertia in kg m², places and lengths in m; as the test set prints them.
M1, M2, M3, M4, M5, M6, M7 = 0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498
I1, I2, I3, I4, I5, I6, I7 = 2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5
XA, YA, XB, YB, XC, YC = -0.06934, -0.00227, -0.03635, 0.03273, 0.014, 0.072
D, DA, E, EA, RR, RA = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
SS, SA, SB, SC, SD, TA, TB = 0.035, 0.01874, 0.01043, 0.018, 0.02, 0.02308, 0.00916
U, UA, UB, ZF, ZT, FA = 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421
SPRING, UNSTRETCHED, DRIVE = 4530.0, 0.07785, 0.033
Q0 = [
    -0.0617138900142764496, 0.0, 0.455279819163070380, 0.222668390165885885, 0.487364979543842550, -0.222668390165885885,
    1.23054744454982119,
]  # fmt: skip
AT_THE_START = 14222.4439199541138, -10666.8329399655854  # the accelerations of β and Θ; those of the others are 0
LATER = [  # q at t = 0.03
    15.8107711962990, -15.7563710598430, 0.0408222401307310, -0.534730116322695, 0.524409965880530, 0.534730116322695,
    1.04808074104226,
]  # fmt: skip


def mass(q):
    """M(q) of q = (β, Θ, γ, Φ, δ, Ω, ε)."""
    theta, phi, omega = q[1], q[3], q[5]
    crank = M2 * (DA**2 - DA * RR * jnp.cos(theta)) + I2
    rod, foot = M4 * (E - EA) ** 2 + I4, M6 * (ZF - FA) ** 2 + I6
    side, other = ZT * (E - EA) * jnp.sin(phi), U * (ZF - FA) * jnp.sin(omega)
    entries = {
        (0, 0): M1 * RA**2 + M2 * (RR**2 - 2 * DA * RR * jnp.cos(theta) + DA**2) + I1 + I2, (0, 1): crank,
        (1, 1): M2 * DA**2 + I2, (2, 2): M3 * (SA**2 + SB**2) + I3, (3, 3): rod, (3, 4): rod + M4 * side,
        (4, 4): rod + M4 * (ZT**2 + 2 * side) + M5 * (TA**2 + TB**2) + I5, (5, 5): foot, (5, 6): foot - M6 * other,
        (6, 6): foot + M6 * (U**2 - 2 * other) + M7 * (UA**2 + UB**2) + I7,
    }  # fmt: skip
    found = jnp.zeros((7, 7))
    for (i, j), entry in entries.items():
        found = found.at[i, j].set(entry).at[j, i].set(entry)
    return found


def lagrangian(q, v):
    x = SD * jnp.cos(q[2]) + SC * jnp.sin(q[2]) + XB - XC
    y = SD * jnp.sin(q[2]) - SC * jnp.cos(q[2]) + YB - YC
    return 0.5 * v @ mass(q) @ v - 0.5 * SPRING * (jnp.sqrt(x**2 + y**2) - UNSTRETCHED) ** 2 + DRIVE * q[0]


def loops(q):
    beta, theta, gamma, phi, delta, omega, epsilon = q
    x = RR * jnp.cos(beta) - D * jnp.cos(beta + theta)
    y = RR * jnp.sin(beta) - D * jnp.sin(beta + theta)
    return jnp.array([
        x - SS * jnp.sin(gamma) - XB, y + SS * jnp.cos(gamma) - YB,
        x - E * jnp.sin(phi + delta) - ZT * jnp.cos(delta) - XA, y + E * jnp.cos(phi + delta) - ZT * jnp.sin(delta) - YA,
        x - ZF * jnp.cos(omega + epsilon) - U * jnp.sin(epsilon) - XA,
        y - ZF * jnp.sin(omega + epsilon) + U * jnp.cos(epsilon) - YA,
    ])  # fmt: skip


SQUEEZER = da.System(lagrangian, da.Holonomic(loops), coordinates=("β", "Θ", "γ", "Φ", "δ", "Ω", "ε"))


def test_the_accelerations_and_the_solution_are_those_of_the_test_set():
    a = da.acceleration(SQUEEZER, jnp.array(Q0), jnp.zeros(7))[0]
    np.testing.assert_allclose(a, [*AT_THE_START, 0.0, 0.0, 0.0, 0.0, 0.0], rtol=1e-11, atol=1e-10)
    found = da.reference(SQUEEZER, Q0, np.zeros(7), [0.0, 0.03], tolerance=1e-9)
    np.testing.assert_allclose(found.q[-1], LATER, rtol=0, atol=1e-7)


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_short_steps_from_rest_are_solved(backend):
    """The angles that rest move by rounding, as φ(q) = 0 holds to that of its terms, and not by less.

    From rest β = ½ a t² and v = a t, to 10⁻³ while β turns by less than 10⁻³; a step may add rounding of q over h to v.
    """
    for h in (2.5e-6, 1e-6, 1e-7):
        path = da.simulate(SQUEEZER, Q0, np.zeros(7), h=h, steps=20, solver=da.Solver(backend=backend), throw=False)
        assert path.outcome is da.Outcome.SUCCESS, path.describe()
        t, rounding = 20 * h, 40 * 20 * np.finfo(float).eps
        np.testing.assert_allclose(path.v[-1, :2], np.multiply(AT_THE_START, t), rtol=1e-3, atol=rounding / h)
        np.testing.assert_allclose(
            np.subtract(path.q[-1, :2], Q0[:2]), 0.5 * np.multiply(AT_THE_START, t**2), rtol=1e-3, atol=20 * rounding
        )
        assert np.max(np.abs(loops(path.q[-1]))) < 1e-16


def test_steps_that_do_not_converge_are_told_to_be_too_short_or_too_long():
    message = da.Outcome.NOT_CONVERGED.message
    assert "Reduce h" in message
    assert "increase h" in message
