"""A generator whose replies a function gives: for tests, for measuring what a job itself costs, and for other engines.

    generator = Scripted(lambda request: '{"answer": "Paris", "evidence": [1]}')

It is used like `Generator`, in its place. It loads no model and counts words for tokens.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from hyce_serving.errors import ServingError
from hyce_serving.requests import Generation, GenerationRequest
from hyce_serving.stream import answers

# A text is a reply that ended by itself; a Generation says all of it.
Reply = Callable[[GenerationRequest], str | Generation]


class Scripted:
    """max_model_len: words of prompt and answer together; a longer prompt is "too_long". Replies come in order."""

    def __init__(
        self, reply: Reply, max_model_len: int = 100_000, capacity: int = 64, described: Mapping[str, str] | None = None
    ) -> None:
        self.name = self.path = "scripted"
        self.max_model_len = max_model_len
        self.capacity = capacity
        # How many requests got a reply.
        self.asked = 0
        self._reply = reply
        self._described = dict(described or {})

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """There is nothing to end."""

    def describe(self) -> dict[str, str]:
        return {"model": self.name, "max_model_len": str(self.max_model_len), **self._described}

    def count_tokens(self, messages: Sequence[Mapping[str, str]]) -> int:
        return sum(len(message["content"].split()) for message in messages)

    def stream(self) -> "ScriptedStream":
        return ScriptedStream(self)

    def generate(
        self, requests: Iterable[GenerationRequest], advance: Callable[[int], None] | None = None
    ) -> Iterator[Generation]:
        with self.stream() as stream:
            yield from answers(stream, iter(requests), advance or (lambda _: None))

    def answer(self, request: GenerationRequest) -> Generation:
        tokens = self.count_tokens(request.messages)
        if tokens + 1 > self.max_model_len:
            return Generation(request.id, "", "too_long", tokens, 0, f"{tokens} of {self.max_model_len} words")
        self.asked += 1
        reply = self._reply(request)
        if isinstance(reply, Generation):
            return reply
        return Generation(request.id, reply, "stop", tokens, len(reply.split()))


class ScriptedStream:
    """As `hyce_serving.stream.Stream`; one reply comes with each take()."""

    def __init__(self, generator: Scripted) -> None:
        self.capacity = generator.capacity
        self._generator = generator
        self._waiting: deque[GenerationRequest] = deque()

    def __enter__(self) -> "ScriptedStream":
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()

    @property
    def open(self) -> int:
        return len(self._waiting)

    def submit(self, request: GenerationRequest) -> None:
        if any(request.id == other.id for other in self._waiting):
            raise ServingError(f"expected each request id once among the open ones, found {request.id!r} twice")
        self._waiting.append(request)

    def take(self) -> list[Generation]:
        return [self._generator.answer(self._waiting.popleft())] if self._waiting else []
