"""How a model is told to reason before it answers, and what of its reply is the answer.

Text in, text out: it knows the two forms (think tags, OpenAI's Harmony channels), but no tokenizer and no engine.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hyce_serving.errors import ServingError

CHOICES = ("off", "on", "low", "medium", "high")
EFFORTS = ("low", "medium", "high")
DEFAULT_TOKENS = 1024

THINK, THINK_END = "<think>", "</think>"
HARMONY_TOKENS = ("<|channel|>", "<|message|>")

# The header may name a format: "<|channel|>final <|constrain|>json<|message|>".
_FINAL = re.compile(r"<\|channel\|>final(?:\s*(?:<\|constrain\|>)?\s*\w*)?<\|message\|>")
_FINAL_END = re.compile(r"<\|(?:return|end)\|>")
_JSON_HEADERS = ("", " json", " <|constrain|>json")


def check(reasoning: str, tokens: int) -> None:
    """Raises ServingError for a mode that is none of CHOICES, or for fewer than 0 tokens."""
    if reasoning not in CHOICES:
        raise ServingError(f"expected reasoning to be one of {', '.join(CHOICES)}, found {reasoning!r}; choose one")
    if tokens < 0:
        raise ServingError(f"expected reasoning_tokens of at least 0, found {tokens}; 0 leaves the answer's alone")


def template_options(reasoning: str, harmony: bool) -> dict[str, Any]:
    """What a chat template is told; those without such a mode ignore it.

    Harmony models reason whatever they are told, so that "off" means as little as they can.
    """
    effort = "low" if harmony and reasoning == "off" else reasoning
    options: dict[str, Any] = {"enable_thinking": reasoning != "off"}
    return {**options, "reasoning_effort": effort} if effort in EFFORTS else options


def after_thinking(reply: str, opened: bool) -> str:
    """The reply without the thinking that it begins with; "" where that never ends.

    opened: the prompt itself ended with <think>, so that the reply begins inside. Only the first </think> after an
    opening counts: one in the answer, in a JSON string for instance, is text.
    """
    if not opened and not reply.lstrip().startswith(THINK):
        return reply
    return reply.partition(THINK_END)[2].lstrip()


def harmony_final(reply: str) -> str:
    """The message in the last final channel, up to its end token; "" where there is none.

    The reply must have kept its special tokens.
    """
    finals = list(_FINAL.finditer(reply))
    return _FINAL_END.split(reply[finals[-1].end() :], maxsplit=1)[0] if finals else ""


def parser(has_token: Mapping[str, bool], template: str) -> str | None:
    """The vLLM reasoning parser that keeps a schema off the reasoning; None where the reply has no such part.

    has_token: whether a string is one token of the vocabulary, for HARMONY_TOKENS, THINK, THINK_END and <tool_call>.
    """
    if all(has_token[token] for token in HARMONY_TOKENS):
        return "openai_gptoss"
    # vLLM's parsers look for these as tokens, and fail where they are spelled in several.
    if not (has_token[THINK] and has_token[THINK_END]):
        return None
    # Qwen's own also ends the thinking at a tool call, which other vocabularies lack.
    return "qwen3" if has_token["<tool_call>"] and "enable_thinking" in template else "deepseek_r1"


def harmony_structure(schema: Mapping[str, Any] | None, choices: Sequence[str]) -> dict[str, Any]:
    """xgrammar's structural tag for a whole Harmony reply: reasoning as it likes, then a final channel that is bound.

    For a vLLM whose grammar begins with the reply rather than with the final channel.
    """
    if schema is not None:
        content: dict[str, Any] = {"type": "json_schema", "json_schema": dict(schema)}
        headers: Sequence[str] = _JSON_HEADERS
    else:
        content = {"type": "or", "elements": [{"type": "const_string", "value": choice} for choice in choices]}
        headers = ("",)
    # The end is empty as well: a grammar must not name the token that ends the whole reply.
    finals = [_tag(f"<|channel|>final{header}<|message|>", content, ["<|end|>", ""]) for header in headers]
    analysis = _tag("<|channel|>analysis<|message|>", {"type": "any_text"}, "<|end|>")
    turn = {"type": "const_string", "value": "<|start|>assistant"}
    reasoned = {"type": "optional", "content": {"type": "sequence", "elements": [analysis, turn]}}
    final = {"type": "or", "elements": finals}
    return {"type": "structural_tag", "format": {"type": "sequence", "elements": [reasoned, final]}}


def _tag(begin: str, content: dict[str, Any], end: str | list[str]) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}
