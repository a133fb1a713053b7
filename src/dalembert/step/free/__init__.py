"""Steps whose length is an unknown. Begin with `free_steps`."""
