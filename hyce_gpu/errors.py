"""Errors by cause. Each message says what was expected, what was found and what to do.

The command line prints the message as one line and exits; a traceback is a defect.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class HyceError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(HyceError):
    """A corpus, a records file, a question or an argument that cannot be used; names the file and line."""


class ConfigError(HyceError):
    """An unknown option, or a value out of its range."""


class StoreError(HyceError):
    """A store that is missing, incomplete, of another version, or built with another encoder."""


class MissingBackendError(HyceError):
    """A backend or package that was asked for by name and is not there; carries the install command."""


class JobError(HyceError):
    """A job that makes no sense to go on with: most of its units fail. Carries the first cause."""


class OutputError(HyceError):
    """A result that cannot be written where it was asked for."""


def unknown(kind: str, name: str, known: Sequence[str]) -> str:
    """The message for a name that is not known: the nearest one, or all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
    return f"unknown {kind} {name!r}{hint}"
