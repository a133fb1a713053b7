"""Runs whose rows go into a store: what takes them, what is advanced, and the loop between; `streamed` comes first."""
