"""The gallery: one system or boundary problem per file, with formula, parameters, reference, and closed form."""

from dalembert.gallery import (
    car_with_trailers,
    cart_pole,
    chain,
    contact_oscillator,
    curvature_particle,
    elastic_beam,
    heisenberg,
    inertia_wheel_pendulum,
    minimum_acceleration,
    minimum_jerk,
    nonholonomic_particle,
    pendulum,
    riemannian_cubic,
    sphere_spline,
    spherical_pendulum,
    vertical_rolling_disk,
)
from dalembert.gallery.entry import BoundaryEntry, Entry

ENTRIES: dict[str, Entry] = {
    module.entry.name: module.entry
    for module in (
        car_with_trailers,
        chain,
        contact_oscillator,
        curvature_particle,
        heisenberg,
        inertia_wheel_pendulum,
        nonholonomic_particle,
        pendulum,
        spherical_pendulum,
        vertical_rolling_disk,
    )
}

PROBLEMS: dict[str, BoundaryEntry] = {
    module.entry.name: module.entry
    for module in (cart_pole, elastic_beam, minimum_acceleration, minimum_jerk, riemannian_cubic, sphere_spline)
}

__all__ = ["ENTRIES", "PROBLEMS", "BoundaryEntry", "Entry"]
