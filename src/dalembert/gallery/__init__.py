"""The gallery: one system or boundary problem per file, with formula, parameters, reference, and closed form."""

from dalembert.gallery import (
    brachistochrone,
    car_with_trailers,
    cart_pole,
    chain,
    contact_oscillator,
    curvature_particle,
    double_integrator,
    dubins,
    elastic_beam,
    elastica,
    heisenberg,
    inertia_wheel_pendulum,
    knife_edge,
    minimum_acceleration,
    minimum_jerk,
    moving_support,
    nonholonomic_particle,
    orbit_transfer,
    pendulum,
    riemannian_cubic,
    sphere_spline,
    spherical_pendulum,
    two_rods,
    vertical_rolling_disk,
    vertical_take_off,
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
    for module in (
        brachistochrone,
        cart_pole,
        double_integrator,
        dubins,
        elastic_beam,
        elastica,
        knife_edge,
        minimum_acceleration,
        minimum_jerk,
        moving_support,
        orbit_transfer,
        riemannian_cubic,
        sphere_spline,
        two_rods,
        vertical_take_off,
    )
}

__all__ = ["ENTRIES", "PROBLEMS", "BoundaryEntry", "Entry"]
