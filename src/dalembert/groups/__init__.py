"""Configuration spaces: Rⁿ, SO(2), SO(3), SE(2), SE(3) and their products. It knows no mechanics."""

from dalembert.groups.given import Pose, nearest_rotation
from dalembert.groups.group import SE2, SE3, SO2, SO3, Euclidean, Group, rotation
from dalembert.groups.space import FLAT, Columns, Product, Space, columns_of, space_of_columns

__all__ = [
    "SE2",
    "SE3",
    "SO2",
    "SO3",
    "Euclidean",
    "Group",
    "Pose",
    "nearest_rotation",
]
