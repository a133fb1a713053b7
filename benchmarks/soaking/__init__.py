"""The parts of `benchmarks.soak`: a function of a seed and a folder each, which says what it did, or raises."""
