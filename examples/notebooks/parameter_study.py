# %% [markdown]
# # A parameter study
#
# How does the period of a pendulum grow with its swing, and what does the length change? A
# thousand runs at once answer, each with an outcome of its own.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ellipk

import dalembert as da

# %% [markdown]
# ## One run
#
# Parameters arrive as the last argument of every function; another value is no new system.

# %%
pendulum = da.System(
    lambda q, v, p: 0.5 * (p["l"] * v[0]) ** 2 + p["g"] * p["l"] * jnp.cos(q[0]),
    coordinates=("θ",),
    parameters={"l": 1.0, "g": 9.81},
)
path = da.simulate(pendulum, [1.0], [0.0], h=0.01, steps=400)
path

# %% [markdown]
# ## A thousand runs
#
# What is to differ gets a leading axis. Here the initial angle; the runs go side by side in the
# vector registers of the processor.

# %%
swings = np.linspace(0.05, 3.0, 1000)
paths = da.ensemble(pendulum, swings[:, None], [0.0], h=0.01, steps=400)
print(paths.describe())
paths.q.shape

# %% [markdown]
# Not every study ends well everywhere. `code` has the outcome of each run, and one that failed
# leaves the others alone:

# %%
assert np.all(np.asarray(paths.code) == da.Outcome.SUCCESS)

# %% [markdown]
# ## The period
#
# The pendulum comes down through θ = 0 after a quarter of its period. Between two nodes the
# crossing is found on the straight line between them, which is good enough here.


# %%
def quarter(angles, t):
    """The first time at which the angle vanishes."""
    after = np.argmax(angles <= 0.0, axis=1)
    rows = np.arange(len(angles))
    before = after - 1
    share = angles[rows, before] / (angles[rows, before] - angles[rows, after])
    return t[before] + share * (t[after] - t[before])


q = np.asarray(paths.q)[:, :, 0]
crossed = (q <= 0.0).any(axis=1)
period = 4.0 * quarter(q[crossed], np.asarray(paths[0].t))
exact = 4.0 / np.sqrt(9.81) * ellipk(np.sin(0.5 * swings[crossed]) ** 2)
error = np.abs(period / exact - 1).max()
print(f"{crossed.sum()} of {len(swings)} came down; largest relative error {error:.1e}")
assert error < 1e-3

# %%
figure, ax = plt.subplots(figsize=(6, 3.2))
ax.plot(swings[crossed], exact, linewidth=4, alpha=0.3, label="elliptic integral")
ax.plot(swings[crossed], period, linewidth=1, label="a thousand runs")
ax.set_xlabel("first angle")
ax.set_ylabel("period")
_ = ax.legend()

# %% [markdown]
# ## Two parameters
#
# Every parameter may have the axis, and several of them together.

# %%
lengths = np.linspace(0.5, 2.0, 200)
runs = da.ensemble(pendulum, [1.0], [0.0], parameters={"l": lengths}, h=0.01, steps=50)
ends = np.asarray(runs.q)[:, -1, 0]
print(f"after half a time unit the shortest is at {ends[0]:.2f}, the longest at {ends[-1]:.2f}")

# %% [markdown]
# ## A derivative instead of a study
#
# How much does the angle after one time unit change with the length? `jax.grad` goes through the
# run.


# %%
def angle(l):
    return da.simulate(pendulum.replace(l=l), [1.0], [0.0], h=0.01, steps=100).q[-1, 0]


slope = jax.grad(angle)(1.0)
print(f"derivative {slope:.6f}, by differences {(angle(1.0001) - angle(0.9999)) / 0.0002:.6f}")

# %% [markdown]
# ## Keep it
#
# `da.save(paths, "study.nc")` stores all runs with what is needed to repeat them;
# `paths.to_xarray()` is the study with labels.
