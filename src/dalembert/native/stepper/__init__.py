"""A run, or many side by side, as machine code: Newton's iteration and all around it. Begin with `step_code`."""
