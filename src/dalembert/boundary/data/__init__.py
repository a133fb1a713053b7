"""What a boundary problem is given: ends, points, times, limits, sizes, checked. Begin with `ends`."""
