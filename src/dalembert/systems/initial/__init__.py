"""What is known of a system at its initial data: all that the checks look at, and a proof that it is well. Begin with `terms`."""
