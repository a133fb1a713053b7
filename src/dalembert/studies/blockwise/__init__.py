"""A sweep in blocks of runs: `blocks` divides it, `job` computes one; `stored`, to be read first, puts them into a store."""
