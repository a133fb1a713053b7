"""The equations of a step, one method per file. Begin with `base`."""
