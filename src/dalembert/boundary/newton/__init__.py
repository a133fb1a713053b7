"""Newton's iteration, globalised. Begin with `iteration`."""
