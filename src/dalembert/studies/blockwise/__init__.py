"""A sweep in blocks: `blocks` divides it, a `job` computes one; `stored`, to be read first, puts them into a store."""
