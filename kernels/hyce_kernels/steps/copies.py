"""Copies of tensors in another form, each kept for as long as its tensor lives and stays as it is."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

Copy = TypeVar("Copy")


class Copies(Generic[Copy]):
    def __init__(self, make: Callable[[Tensor], Copy]) -> None:
        self._make = make
        # By id: the tensor, its version, the copy.
        self._made: dict[int, tuple[weakref.ref[Tensor], int, Copy]] = {}

    def of(self, tensor: Tensor) -> Copy:
        known = self._made.get(id(tensor))
        if known and known[0]() is tensor and known[1] == tensor._version:
            return known[2]
        key, made, copy = id(tensor), self._made, self._make(tensor)
        made[key] = weakref.ref(tensor, lambda _: made.pop(key, None)), tensor._version, copy
        return copy
