"""The `linked` method: relevance, bridges between passages, and a weighted walk, as one score (docs/linked.md)."""
