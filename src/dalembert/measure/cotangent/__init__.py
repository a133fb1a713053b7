"""The discrete motion on T*Q: `legendre`, the discrete Legendre maps; `phase_step`, a step as a map of (q, p)."""
