"""One vLLM engine that several threads may use: it starts on first use, and one thread at a time drives it.

Whoever drives puts the others' outcomes aside for them. It does not know prompts' texts, nor what an answer means.
"""

import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from hyce_serving import engine
from hyce_serving.errors import ServingError


class Refused(Exception):
    """A single request that the engine did not take; the message is the cause."""


class SharedEngine:
    """start gives a vllm.LLM; it is called by the first add(), and again after close() or the engine's death."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self.llm: Any = None
        self._start = start
        self._turn = threading.Condition()
        self._driving = False
        # Threads that want the engine for something else than a step; they go first, or a busy driver starves them.
        self._claims = 0
        self._running: set[str] = set()
        self._outcomes: dict[str, Any] = {}
        self._aborted: list[str] = []
        self._numbers = count()

    def add(self, prompt: list[int], sampling: Callable[[], Any]) -> str:
        """Gives a prompt to the engine and returns the key of its outcome.

        Raises Refused for this request alone, and ServingError where the engine does not start.
        """
        with self._exclusive():
            if self.llm is None:
                self.llm = self._start()
            key = f"request-{next(self._numbers)}"
            try:
                # Both forms of vLLM's input in one: versions read "type" or the key of the ids.
                self.llm.llm_engine.add_request(key, {"type": "token", "prompt_token_ids": prompt}, sampling())
            # A schema can be refused by the sampling parameters, the grammar compiler or the engine, each its own way.
            except Exception as error:
                self.llm.llm_engine.abort_request([key])
                raise Refused(engine.cause(error)) from error
            self._running.add(key)
            return key

    def outcomes(self, keys: Container[str]) -> dict[str, Any]:
        """Takes out what is there of these, in the order in which they finished; it waits for nothing.

        An outcome is vLLM's RequestOutput, or a ServingError where the engine ended before the answer.
        """
        with self._turn:
            return {key: self._outcomes.pop(key) for key in [key for key in self._outcomes if key in keys]}

    def advance(self) -> None:
        """One step of the engine, or the wait for the end of another thread's."""
        with self._turn:
            if self._driving or self._claims:
                self._turn.wait()
                return
            self._driving = True
        try:
            self._step()
        finally:
            self._release()

    def abort(self, keys: list[str]) -> None:
        """Leaves nothing of these behind; where another thread drives, it sees to that after its step."""
        with self._turn:
            self._aborted.extend(keys)
            # The driver may be this very thread: a generator that the garbage collector ends in the middle of a step.
            if self._driving:
                return
            self._driving = True
        try:
            self._drop_aborted()
        finally:
            self._release()

    def close(self) -> None:
        """Ends the engine and frees its memory; what it was still asked gets a ServingError as its outcome."""
        with self._exclusive():
            self._end("the engine closed; ask again")

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._turn:
            self._claims += 1
            try:
                self._turn.wait_for(lambda: not self._driving)
                self._driving = True
            finally:
                self._claims -= 1
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        with self._turn:
            self._driving = False
            self._turn.notify_all()

    def _step(self) -> None:
        self._drop_aborted()
        if not self._running:
            return
        try:
            for output in self.llm.llm_engine.step():
                if output.finished and output.request_id in self._running:
                    self._settle(output.request_id, output)
            lost = bool(self._running) and not self.llm.llm_engine.has_unfinished_requests()
        # The engine's state is unknown after any error in a step; the next request starts a new one.
        except Exception as error:
            advice = "ask again, with fewer requests or a smaller max_model_len if memory ran out"
            self._end(f"that vLLM stopped ({engine.cause(error)}); {advice}", error)
            return
        if lost:
            self._end("that vLLM has forgotten them; ask again")
        self._drop_aborted()

    def _settle(self, key: str, outcome: Any) -> None:
        with self._turn:
            self._running.discard(key)
            self._outcomes[key] = outcome

    def _drop_aborted(self) -> None:
        with self._turn:
            keys, self._aborted = self._aborted, []
        running = [key for key in keys if key in self._running]
        if running and self.llm is not None:
            self.llm.llm_engine.abort_request(running)
        with self._turn:
            self._running.difference_update(keys)
            for key in keys:
                self._outcomes.pop(key, None)

    def _end(self, found: str, cause: Exception | None = None) -> None:
        llm, self.llm = self.llm, None
        error = ServingError(f"expected answers to {len(self._running)} more requests, found {found}")
        error.__cause__ = cause
        for key in list(self._running):
            self._settle(key, error)
        if llm is not None:
            engine.stop(llm)
