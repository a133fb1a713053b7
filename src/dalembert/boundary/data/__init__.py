"""What a boundary problem is given: ends, points, times, sizes, checked. Begin with `ends`."""
