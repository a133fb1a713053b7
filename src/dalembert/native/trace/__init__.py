"""From the programs that JAX traces to the graph. Begin with `tracer`."""
