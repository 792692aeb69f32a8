"""What every tokenizer needs of a text before it can take it."""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, so that it can be encoded; its length stays."""
    return _SURROGATE.sub("\ufffd", text)
