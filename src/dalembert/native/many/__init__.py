"""Many integrations of one equation: side by side in the lanes of vectors, and over threads. Begin with `travel`."""
