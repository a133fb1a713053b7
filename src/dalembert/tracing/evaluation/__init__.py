"""Traced programs evaluated by NumPy, operation by operation: what runs a few times is done before XLA has compiled it."""
