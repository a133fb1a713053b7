"""Newton's iteration, globalised. Begin with `iteration`; `merit` says when a step is taken."""
