"""Second-order constraints reduced by a group, and restored: how far the reduced motion is from the full one.

    python examples/reduction.py

A particle with prescribed curvature by the rigid motions of the plane, a servo on a cart by its translation, the inertia
wheel pendulum with χ = 0 by the rotation of its wheel. Prints the numbers of a state before and after, and the largest
difference at a node for schemes of orders 2 to 8.
"""

import os

import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES

FAST = bool(os.environ.get("DALEMBERT_EXAMPLES_FAST"))
STILL, TURN = np.zeros((2, 2)), np.array([[0.0, -1.0], [1.0, 0.0]])


def cart(q, v):
    """A cart with a pole, L = ½(1.3 v² + 0.6 v w cos θ + 0.3 w²) - 3 cos θ."""
    return 0.65 * v[0] ** 2 + 0.15 * v[1] ** 2 + 0.3 * v[0] * v[1] * jnp.cos(q[1]) - 3.0 * jnp.cos(q[1])


def upright(q, v, a):
    return a[1] + 1.2 * v[1] + 4.0 * jnp.sin(q[1])


def push(q, v, a):
    """The force that holds the law acts on the cart."""
    return jnp.array([1.0, 0.0])


bend, wheel = ENTRIES["curvature_particle"], ENTRIES["inertia_wheel_pendulum"]
servo = da.System(cart, da.SecondOrder(upright, reactions=push), coordinates=("x", "θ"))
spun = wheel.system.replace(chi=0.0)
tasks = {
    "curvature particle": (bend.system, bend.q0, bend.v0, [(STILL, [1.0, 0.0]), (STILL, [0.0, 1.0]), (TURN, [0.0, 0.0])]),
    "servo on a cart": (servo, [0.2, 0.5], [0.1, 0.3], [(STILL, [1.0, 0.0])]),
    "wheel pendulum": (spun, wheel.q0, wheel.v0, [(STILL, [0.0, 1.0])]),
}

print(f"{'system':20}{'numbers':>8}  " + "".join(f"order {order:<6}" for order in (2, 4, 6, 8)))
for name, (system, q0, v0, generators) in tasks.items():
    small = da.symmetry.quotient(system, q0, v0, generators=generators)
    apart = []
    for order in (2, 8) if FAST else (2, 4, 6, 8):
        run = {"h": 0.05, "steps": 20 if FAST else 100, "scheme": da.Scheme(order=order)}
        back, full = small.reconstruct(small.simulate(**run)), da.simulate(system, q0, v0, **run)
        apart.append(np.max(np.abs(back.q - full.q)) / max(1.0, np.max(np.abs(full.q))))
    print(f"{name:20}{2 * len(q0):>4} → {len(small.x0)}  " + "".join(f"{gap:<12.0e}" for gap in apart))
