"""From the graph to machine code, in memory and on disk. Begin with `builder` and `emit`."""
