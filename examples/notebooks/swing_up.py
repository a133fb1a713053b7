# %% [markdown]
# # Control: swing up a pole, and keep it up
#
# A cart carries a pole that hangs. One motor pushes the cart. Which force swings the pole up
# with the least effort? And what keeps it there when the real cart is not quite the model?

# %%
import numpy as np

import dalembert as da
from dalembert.gallery import cart_pole

# %% [markdown]
# ## The plant and the task
#
# θ = 0 is the hanging pole. The cost is ∫ u² dt.

# %%
numbers = {"M": 1.0, "m": 0.3, "l": 0.5, "g": 9.81}
plant = da.System(cart_pole.lagrangian, coordinates=("x", "theta"), parameters=numbers, draw=cart_pole.draw)
task = da.OptimalControl(plant, cost=lambda q, v, u, p: u @ u, actuated=0)
rest = [0.0, 0.0]
ends = {"initial": ([0.0, 0.0], rest), "final": ([1.0, np.pi], rest), "T": 2.0}

# %% [markdown]
# ## The plan

# %%
plan = da.solve(task, **ends, steps=100)
plan

# %%
da.animate(plan, fps=20)

# %%
da.plot(plan)

# %% [markdown]
# ## A weaker motor
#
# It gives at most 12. The plan comes to the limit, and leaves it again:

# %%
weak = da.solve(task, **ends, steps=100, bounds={"u": (-12.0, 12.0)}, guess=plan)
print(f"cost {float(plan.cost):.2f} without a limit, {float(weak.cost):.2f} with it")
print("at the limit or leaving it at t =", np.round(weak.switches("u")[0], 3))
assert np.abs(weak.u).max() < 12.0 + 1e-6

# %% [markdown]
# ## The real cart
#
# Its pole is 2 % longer than that of the model. The plan alone misses; gains along the plan
# bring it back.

# %%
gains = {"Q": np.diag([10.0, 10.0, 1.0, 1.0]), "R": [[0.1]], "Q_T": np.eye(4)}
nothing = {"Q": np.zeros((4, 4)), "R": [[1.0]], "Q_T": np.zeros((4, 4))}
real = plant.replace(l=0.51)
runs = {}
for name, weights in (("the plan alone", nothing), ("with gains", gains)):
    law = da.feedback(task, plan, **weights)
    runs[name] = da.closed_loop(real, law, [0.0, 0.0], rest, h=0.01, steps=200, every=2)
    print(f"{name}: {runs[name].q[-1, 1] - np.pi:+.3f} from upright")
assert abs(runs["with gains"].q[-1, 1] - np.pi) < 0.2 * abs(runs["the plan alone"].q[-1, 1] - np.pi)

# %% [markdown]
# ## And keep it up
#
# The same function, along a plan that rests at the top, gives the gains for afterwards. `then`
# goes on with them.

# %%
resting = da.solve(task, initial=([1.0, np.pi], rest), final=([1.0, np.pi], rest), T=2.0, steps=40)
whole = da.feedback(task, plan, **gains).then(da.feedback(task, resting, **gains))
kept = da.closed_loop(real, whole, [0.0, 0.0], rest, h=0.01, steps=500, every=2)
print(f"at t = {kept.t[-1]:g}: {kept.q[-1, 1] - np.pi:+.1e} from upright")
assert abs(kept.q[-1, 1] - np.pi) < 0.02

# %% [markdown]
# ## Next
#
# `da.mpc` solves the problem again at every sample, with its limits; `da.sensitivity` says what
# the cost would be with a longer pole. Both are on the page *Feedback*.
