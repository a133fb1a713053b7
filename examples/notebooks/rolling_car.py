# %% [markdown]
# # A car that rolls
#
# Wheels that do not slip are constraints on velocities that no constraint on positions could
# replace: a car can reach every place and every heading, and yet it cannot move sideways. Here
# a car with two trailers is written down, checked, and let go.

# %%
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.gallery import car_with_trailers

# %% [markdown]
# ## Can it be solved, and is the constraint what it seems?
#
# The gallery has the car: `x, y` of the rear axle, the heading, the steering angle, and a
# heading for each trailer. At each axle the velocity across the wheels vanishes.

# %%
car = car_with_trailers.car_with_trailers(2)
car.coordinates

# %%
q0 = np.array([0.0, 0.0, 0.0, 0.25, 0.0, 0.0])
start = da.project(car, q0, [1.0, 0.0, 0.25, 0.0, 0.0, 0.0])  # the nearest velocity that rolls
start

# %%
print(da.solvability(car, start.q, start.v))

# %% [markdown]
# *Not integrable*: it is no constraint on positions in disguise.
#
# ## Let it go
#
# The steering is held by a spring, as if somebody held the wheel.

# %%
path = da.simulate(car, start.q, start.v, h=0.05, steps=800)
path

# %%
da.animate(path, fps=15)

# %% [markdown]
# ## Do the wheels slip?
#
# The constraints hold to rounding at every state, not only to the order of the method:

# %%
residual = da.measure.constraint_residual(car, path)[0]
print(f"largest slip: {residual.largest:.1e}")
assert residual.largest < 1e-12

# %% [markdown]
# The energy is no unknown of the method. It is not constant to rounding, and it must not drift:

# %%
energy = da.measure.energy(car, path)
energy

# %% [markdown]
# ## The forces of the ground
#
# The multipliers are the forces across the wheels, axle by axle.

# %%
forces = np.asarray(path.multipliers)
for name, force in zip(("rear axle", "front axle", "first trailer", "second trailer"), forces.T, strict=False):
    print(f"{name:14} at most {np.abs(force).max():.3f}, at the end {force[-1]:+.3f}")

# %% [markdown]
# ## More digits
#
# The same scheme, composed with itself: order 4 with steps five times as long.

# %%
fine = da.simulate(car, start.q, start.v, h=0.25, steps=160, scheme=da.Scheme(order=4))
coarse = da.simulate(car, start.q, start.v, h=0.05, steps=800)
exact = da.reference(car, start.q, start.v, jnp.array([0.0, 40.0])).q[-1]
for name, run in (("order 2, h = 0.05", coarse), ("order 4, h = 0.25", fine)):
    print(f"{name}: error {np.abs(run.q[-1] - exact).max():.1e}")
