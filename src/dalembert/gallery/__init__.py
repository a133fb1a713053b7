"""The gallery: one system or boundary problem per file, with formula, parameters, reference, and closed form."""

from dalembert.gallery import (
    ball_on_turntable,
    brachistochrone,
    bryson_denham,
    car_with_trailers,
    cart_pole,
    cart_pole_balance,
    chain,
    chaplygin_sleigh,
    climbing_orbit,
    contact_oscillator,
    curvature_particle,
    double_integrator,
    dubins,
    elastic_beam,
    elastica,
    heisenberg,
    inertia_wheel_pendulum,
    keep_out,
    knife_edge,
    minimum_acceleration,
    minimum_jerk,
    moving_support,
    nonholonomic_particle,
    orbit_transfer,
    parked_car,
    pendulum,
    rendezvous,
    riemannian_cubic,
    rigid_body,
    rolling_disk,
    sphere_spline,
    spherical_pendulum,
    two_rods,
    van_der_pol,
    vertical_rolling_disk,
    vertical_take_off,
    wheel_swing_up,
)
from dalembert.gallery.entry import BoundaryEntry, Entry

ENTRIES: dict[str, Entry] = {
    module.entry.name: module.entry
    for module in (
        ball_on_turntable,
        car_with_trailers,
        cart_pole_balance,
        chain,
        chaplygin_sleigh,
        climbing_orbit,
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
        bryson_denham,
        cart_pole,
        double_integrator,
        dubins,
        elastic_beam,
        elastica,
        keep_out,
        knife_edge,
        minimum_acceleration,
        minimum_jerk,
        moving_support,
        orbit_transfer,
        parked_car,
        rendezvous,
        riemannian_cubic,
        rigid_body,
        rolling_disk,
        sphere_spline,
        two_rods,
        van_der_pol,
        vertical_take_off,
        wheel_swing_up,
    )
}

__all__ = ["ENTRIES", "PROBLEMS", "BoundaryEntry", "Entry"]
