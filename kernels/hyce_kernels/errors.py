"""Errors by cause. Each message says what was expected, what was found and what to do."""

from __future__ import annotations


class KernelError(Exception):
    """Base of every error that this package raises on purpose: arguments that no kernel can take."""


class MissingBackendError(KernelError):
    """A backend that was asked for by name and is not there; carries the install command."""
