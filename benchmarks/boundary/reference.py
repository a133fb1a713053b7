"""Numbers that a solver of boundary problems is to reproduce; `check_reference.py` computes each of them in two ways.

Positions are rows per node or time, to 13 digits. The two ways and this table agree to DIGITS of the largest number.
"""

from __future__ import annotations

DIGITS = 1e-10
TIMES = (0.25, 0.5, 0.75)

# Discrete spline on the sphere through five points: data and equations in `sphere.py` and `spline_newton.py`. Positions and
# multipliers λ_k/h, with which h⁻³(q_{k+2} - … + q_{k-2}) + 2λ_k q_k = 0, at free nodes.
SPLINE_STEPS = 100
SPLINE_NODES = (8, 25, 42, 58, 75, 92)
SPLINE_OBJECTIVE = 1368.114048426528
SPLINE_POSITIONS = (
    (0.9227605708425, 0.2474570208543, 0.295428420651),
    (0.3233405513079, 0.855836695829, 0.4037256964232),
    (-0.2741137443446, 0.8868719077242, -0.3719137997587),
    (-0.7113959053551, 0.3622727626512, -0.6022244691849),
    (-0.9264693350181, -0.0456093853766, 0.3735965139516),
    (-0.3955331102039, -0.7310217856339, 0.5560222186757),
)
SPLINE_MULTIPLIERS = (
    115.92508424435, -2287.07771608687, -2877.67434240507, 669.133008868556, -8851.35969919434, -6601.35729659009,
)  # fmt: skip

# Curves on the sphere between the two states of `sphere_curves.py`, T = 1: ∫½|q̈|² dt, and ∫½|Dq̇/dt|² dt (Riemannian cubic).
# Both are strict local minima.
AMBIENT_COST = 38.2124236890915
AMBIENT_POSITIONS = (
    (0.9213946124909, 0.3287539953993, 0.2072505213065),
    (0.7487311009371, 0.6378200591068, -0.1805195576399),
    (0.3693940928601, 0.7799699036316, -0.5051682428548),
)
CUBIC_COST = 31.058517766439
CUBIC_POSITIONS = (
    (0.9220645420674, 0.3172919170539, 0.2216366838642),
    (0.7508470911929, 0.6333106607728, -0.1874733383675),
    (0.3566170460426, 0.7739358950423, -0.5233044169858),
)

# Beam with μ = 1 + t, ρ = cos 3t, clamped at 0 and 1, `beam.py`; and its discretization of `differences.py` with N = 100,
# whose outer two nodes of either end have the values of the continuous beam.
BEAM_OBJECTIVE = -2.8208257400007e-05
BEAM_POSITIONS = (-2.4803038022969e-04, -1.6173007369393e-04, 3.6815659958852e-05)
BEAM_STEPS = 100
BEAM_DISCRETE_ACTION = -2.9939872702199e-05
BEAM_DISCRETE_POSITIONS = (-2.4795580586138e-04, -1.6165008553963e-04, 3.6835569740490e-05)

# Least ½∫|d³q/dt³|² dt between the states of `differences.py`: a polynomial of degree 5, whose values these are exactly.
JERK_COST = 526.5
JERK_POSITIONS = (0.2939453125, 0.75, 1.0576171875)

# Swing-up of `cartpole.py`: the extremal found from the straight line, and the cheapest of 200 random guesses.
CARTPOLE_STEPS = (25, 50, 100, 200)
STRAIGHT_COSTS = (57.8007781020423, 58.5678051506348, 58.7478744716803, 58.7927288229725)
STRAIGHT_LIMIT = 58.8076674582
CHEAPEST_COSTS = (56.6276445754384, 57.6003843297712, 57.8583737798985, 57.923158385791)
CHEAPEST_LIMIT = 57.9447803067
