"""A sweep in blocks: `blocks` divides it, a `job` computes one, of runs or of solutions; `stored`, to be read first, puts them into a store."""
