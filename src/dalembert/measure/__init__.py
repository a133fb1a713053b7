"""Measurements on a path or a scheme: they say whether the theory's promises hold on a system, and steer nothing."""

from dalembert.measure.order import Convergence, Order, order

__all__ = ["Convergence", "Order", "order"]
