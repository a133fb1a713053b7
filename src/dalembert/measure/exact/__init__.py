"""The discrete data that the exact flow defines, and how far a scheme's are from them. Begin with `pair`."""
