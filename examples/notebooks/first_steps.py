# %% [markdown]
# # First steps
#
# A bead slides on a hoop that turns about its vertical diameter. In ten minutes you will write
# it, watch it, drive it with a motor, and know how exact the answer is.

# %%
import jax.numpy as jnp
import numpy as np

import dalembert as da

# %% [markdown]
# ## Write the Lagrangian
#
# The only coordinate is the angle θ, measured from the bottom. The hoop turns with the angular
# velocity Ω. Functions use `jax.numpy`, because they are differentiated.


# %%
def lagrangian(q, v, p):
    turning = (p["Omega"] * jnp.sin(q[0])) ** 2
    return 0.5 * v[0] ** 2 + 0.5 * turning + p["g"] * jnp.cos(q[0])


def draw(q, p):
    """The hoop, seen in its own plane, and the bead."""
    turn = jnp.linspace(0.0, 2.0 * jnp.pi, 97)
    hoop = jnp.stack([jnp.sin(turn), -jnp.cos(turn)], axis=1)
    return [da.Rod(hoop), da.Dots([jnp.sin(q[0]), -jnp.cos(q[0])], trail=True)]


hoop = da.System(lagrangian, coordinates=("θ",), parameters={"Omega": 4.0, "g": 9.81}, draw=draw)
hoop

# %% [markdown]
# ## Let it go
#
# The hoop turns so fast that the bottom is no place to rest at.

# %%
path = da.simulate(hoop, q0=[0.6], v0=[0.0], h=0.01, steps=800)
path

# %%
da.animate(path, fps=15)

# %%
da.plot(path)

# %% [markdown]
# Where would it rest? Where gravity and the centrifugal force balance: cos θ = g/Ω².

# %%
rest = np.arccos(9.81 / 4.0**2)
print(f"it swings about {np.mean(path['θ']):.3f}; the balance is at {rest:.3f}")

# %% [markdown]
# ## How exact is that?
#
# Halve the step a few times and compare with the exact flow. The slope is the order.

# %%
da.measure.order(hoop, [0.6], [0.0], time=4.0, h=[0.04, 0.02, 0.01])

# %% [markdown]
# ## Hold it with a motor
#
# A motor shall bring the bead to θ = 1 by the law θ̈ = -2θ̇ - ω²(θ - 1). That is a constraint on
# the acceleration, and its multiplier is the torque that the motor has to give.

# %%
servo = da.System(
    lagrangian,
    da.SecondOrder(lambda q, v, a, p: a[0] + 2.0 * v[0] + p["omega"] ** 2 * (q[0] - 1.0)),
    coordinates=("θ",),
    parameters={"Omega": 4.0, "g": 9.81, "omega": 1.5},
    draw=draw,
)
held = da.simulate(servo, q0=[0.1], v0=[0.0], h=0.01, steps=1000)
torque = held.multipliers[:, 0]
print(f"it ends at {held['θ'][-1]:.4f}; the motor then holds {torque[-1]:.3f}")

# %% [markdown]
# Check it against the balance of torques there, g sin θ - Ω² sin θ cos θ:

# %%
needed = 9.81 * np.sin(1.0) - 16.0 * np.sin(1.0) * np.cos(1.0)
assert abs(torque[-1] - needed) < 0.01
da.plot(held)

# %% [markdown]
# ## Next
#
# `da.page(held, "held.html")` writes all of this as one page for a browser. The notebook on
# control finds the motion of least effort instead of a law.
