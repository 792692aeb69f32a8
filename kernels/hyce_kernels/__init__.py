"""Sparse tensor operations on many small sub-hypergraphs at once. Torch, and numba, triton or
torch_sparse where a backend asks for them: no text, no I/O, no models.

Letters: Q questions, V entities, E hyperedges, N incidences.
"""
