"""The KKT system of a problem: its unknowns, its sums, its linear systems. Begin with `transcription`."""
