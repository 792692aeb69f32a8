"""Requests in and answers out of one running engine, without a barrier between them.

Prompts are made in a worker thread beside the engine's steps; the steps are taken by the thread that calls take().
It does not know models or devices.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, Protocol

from hyce_serving.asking import Asking
from hyce_serving.engine import cause
from hyce_serving.errors import ServingError
from hyce_serving.requests import Generation, GenerationRequest
from hyce_serving.shared_engine import Refused, SharedEngine


class Streaming(Protocol):
    """What whoever keeps a stream full needs of it."""

    @property
    def open(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    def submit(self, request: GenerationRequest) -> None: ...
    def take(self) -> list[Generation]: ...


def answers(
    stream: Streaming, source: Iterator[GenerationRequest], advance: Callable[[int], object]
) -> Iterator[Generation]:
    """The answers to all of source as they finish; requests are taken from it as the stream has room for them."""
    while True:
        for request in islice(source, stream.capacity - stream.open):
            stream.submit(request)
        if not stream.open:
            return
        for generation in stream.take():
            advance(1)
            yield generation


@dataclass(frozen=True)
class _Ready:
    request: GenerationRequest
    prompt: list[int]
    max_tokens: int


class Stream:
    """Open requests to one model; a context manager, and leaving it aborts what is open.

    capacity: how many open requests keep the engine full; more only wait in it. Another thread may submit while one
    takes.
    """

    def __init__(self, asking: Asking, engine: SharedEngine, capacity: int) -> None:
        self.capacity = capacity
        self._asking = asking
        self._engine = engine
        # One thread, so that prompts are ready in the order of their submission; it starts with the first of them.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="hyce-prompts")
        self._lock = Lock()
        self._open: set[str] = set()
        self._preparing: deque[tuple[str, Future[_Ready | Generation]]] = deque()
        self._asked: dict[str, GenerationRequest] = {}

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            keys = list(self._asked)
            self._open.clear()
            self._asked.clear()
            self._preparing.clear()
        self._engine.abort(keys)

    @property
    def open(self) -> int:
        """Requests that are submitted and not yet taken."""
        return len(self._open)

    def submit(self, request: GenerationRequest) -> None:
        """Opens a request and returns at once; raises ServingError for an id that is open, and on an ended stream."""
        with self._lock:
            if request.id in self._open:
                raise ServingError(
                    f"expected each request id once among the open ones, found {request.id!r} twice; rename one"
                )
            try:
                self._preparing.append((request.id, self._worker.submit(self._prepare, request)))
            except RuntimeError as error:
                raise ServingError(
                    f"expected an open stream for the request {request.id!r}, found that it was left; open another"
                ) from error
            self._open.add(request.id)

    def take(self) -> list[Generation]:
        """All answers that are finished, at least one; [] only where nothing is open.

        Raises ServingError where the engine or the tokenizer does not start, or where the engine stops.
        """
        while self._open:
            found = self._admit() + self._finished()
            if found:
                self._settle(generation.id for generation in found)
                return found
            if self._asked:
                self._engine.advance()
            else:
                self._await_prompt()
        return []

    def _prepare(self, request: GenerationRequest) -> _Ready | Generation:
        """Runs in the worker. What it raises concerns all requests, what it returns this one."""
        self._asking.load()
        try:
            prompt = self._asking.prompt(request)
        # Templates are programs that come with a model, and fail as programs do.
        except Exception as error:
            return Generation(request.id, "", "error", 0, 0, cause(error))
        max_tokens = self._asking.max_tokens(request, len(prompt))
        if max_tokens:
            return _Ready(request, prompt, max_tokens)
        window = self._asking.window()
        found = f"{len(prompt)} prompt tokens leave {max(window - len(prompt), 0)} of {window} for the answer"
        return Generation(request.id, "", "too_long", len(prompt), 0, found)

    def _admit(self) -> list[Generation]:
        """Gives the prompts that are ready to the engine; returns what could not be asked."""
        refused = []
        while (ready := self._next_ready()) is not None:
            if isinstance(ready, Generation):
                refused.append(ready)
                continue
            request = ready.request
            try:
                key = self._engine.add(ready.prompt, self._sampling(ready))
            except Refused as error:
                refused.append(Generation(request.id, "", "error", len(ready.prompt), 0, str(error)))
            except ServingError:
                self._settle([request.id])
                raise
            else:
                with self._lock:
                    self._asked[key] = request
        return refused

    def _next_ready(self) -> _Ready | Generation | None:
        with self._lock:
            if not self._preparing or not self._preparing[0][1].done():
                return None
            request_id, first = self._preparing.popleft()
        if first.exception() is not None:
            self._settle([request_id])
        return first.result()

    def _settle(self, ids: Iterable[str]) -> None:
        with self._lock:
            self._open.difference_update(ids)

    def _sampling(self, ready: _Ready) -> Callable[[], Any]:
        return lambda: self._asking.sampling(ready.request, ready.max_tokens)

    def _finished(self) -> list[Generation]:
        with self._lock:
            outcomes = self._engine.outcomes(self._asked)
            asked = [(self._asked.pop(key), outcome) for key, outcome in outcomes.items()]
        for _, outcome in asked:
            if isinstance(outcome, Exception):
                self._settle(request.id for request, _ in asked)
                raise outcome
        return [self._generation(request, output) for request, output in asked]

    def _generation(self, request: GenerationRequest, output: Any) -> Generation:
        reply = output.outputs[0]
        counts = len(output.prompt_token_ids or ()), len(reply.token_ids)
        if reply.finish_reason in ("stop", "length"):
            return Generation(request.id, self._asking.answer(reply.text), reply.finish_reason, *counts)
        error = f"vLLM ended the request: {reply.finish_reason} ({reply.stop_reason})"
        return Generation(request.id, reply.text, "error", *counts, error)

    def _await_prompt(self) -> None:
        with self._lock:
            first = [prompt for _, prompt in list(self._preparing)[:1]]
        wait(first)
