"""Evaluation: the benchmarks' data sets as documents and questions with labels."""
