"""Sparse tensor operations on many small sub-hypergraphs at once. Torch only: no text, no I/O, no models.

Letters: Q questions, V entities, E hyperedges, N incidences.
"""
