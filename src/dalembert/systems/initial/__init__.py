"""What is known of a system at its initial data, for the checks, and a proof that all is well. Begin with `terms`."""
