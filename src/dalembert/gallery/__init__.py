"""The gallery: one system per file, each with formula, parameters, reference, and closed form if there is one."""

from dalembert.gallery import (
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
from dalembert.gallery.entry import Entry

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

__all__ = ["ENTRIES", "Entry"]
