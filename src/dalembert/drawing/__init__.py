"""What a system looks like, as data: shapes that `draw=` returns for one state, and in `scene` a drawing over time."""

from dalembert.drawing.shapes import Ball, Body, Dots, Rod, Wheel

__all__ = ["Ball", "Body", "Dots", "Rod", "Wheel"]
