"""Data of a boundary problem, checked: ends, points, times, limits, sizes. Begin with `ends`."""
