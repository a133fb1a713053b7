"""Meshes of an optimal control problem, refined where the error is and where bounds switch. Begin with `refinement`."""
