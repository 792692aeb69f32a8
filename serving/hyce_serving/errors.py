"""Errors of this package. Each message says what was expected, what was found and what to do.

It knows nothing of the program around it: a caller translates these into its own errors.
"""


class ServingError(Exception):
    """Base of every error that this package raises on purpose."""


class ModelNotFound(ServingError):
    """Weights that are neither in the place that was named nor to be had from anywhere within reach."""


class MissingPackage(ServingError):
    """A Python package that is needed and not installed; the message carries the pip command."""
