"""Ends that move: components of every block that tie both ends, and equations of a set at an end. Begin with `end_terms`."""
