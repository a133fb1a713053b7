"""Functions and flows of a system as machine code; other values of its arrays compile nothing. Begin with `function`."""
