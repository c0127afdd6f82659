"""What every engine over HTTP shares: sessions, retries, failover, abort and the checks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from retrain.connections import seconds_to_wait
from retrain.engine.base import EngineCapabilities, Generation, SamplingParams
from retrain.engine.http_answer import ServedModel, check_answer
from retrain.engine.http_client import HttpClient, HttpSettings, ServerFault, server_urls
from retrain.engine.http_pool import Server, ServerPool
from retrain.engine.request_checks import check_request
from retrain.errors import EngineFailure
from retrain.types import FinishReason

CHECK_SECONDS = 60.0
"""Seconds that one question of a server's check may take."""
ABORT_SECONDS = 5.0
"""Seconds that a server may take to end an aborted request; then the connection is cut."""


@dataclass(slots=True, eq=False)
class Session:
    """One episode, as its servers see it.

    Attributes:
        name: The session's id.
        uid: Names it on the wire. All uids are of one length, since SGLang aborts by prefix.
        turn: How many requests it made.
        request_id: The request that runs, or ran last: uid, turn and attempt.
        server: Where its turns go.
        task: The request while it runs.
        aborted: Whether the running request was aborted.
    """

    name: str
    uid: str = field(default_factory=lambda: uuid4().hex)
    turn: int = 0
    request_id: str = ""
    server: Server | None = None
    task: asyncio.Task[Generation] | None = None
    aborted: bool = False


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One turn to be written.

    Attributes:
        input_ids: The whole stream so far.
        params: How to sample.
        seed: The turn's seed.
        images: What the stream shows, in order.
    """

    input_ids: list[int]
    params: SamplingParams
    seed: int
    images: tuple[str, ...] = ()


class HttpEngine(ABC):
    """An `InferenceEngine` over one or several servers.

    A turn is one request. A session's turns go to one server, so that its prefix cache hits; a new
    session goes to the server with the fewest requests. A request whose connection broke, or that
    got a status of `connections.RETRIED`, is sent again under another request id, to another
    server where one is up: generating changes nothing on a server, and only one answer is taken.
    A server that does not answer is left out until it passes its check again.

    Attributes:
        urls: The servers' base URLs.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        settings: HttpSettings | None = None,
        model: ServedModel | None = None,
    ) -> None:
        """Take the servers; none is asked before `start`, or the first `generate`.

        Args:
            urls: Base URLs, e.g. "http://127.0.0.1:30000".
            settings: Times, retries and the API key.
            model: What the servers must serve; None checks nothing.

        Raises:
            ConfigError: A URL cannot be one, or the API key is not set.
            MissingDependency: aiohttp is not installed.
        """
        self.urls = server_urls(urls if isinstance(urls, str) else tuple(urls))
        self._settings = settings or HttpSettings()
        self._model = model or ServedModel()
        self._client = HttpClient(self.urls, self._settings)
        self._pool = ServerPool(self.urls, self._check, self._settings.probe_interval)
        self._sessions: dict[str, Session] = {}

    @property
    @abstractmethod
    def capabilities(self) -> EngineCapabilities:
        """What the servers can do, as far as is known: some of it only after `start`."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Why servers are left out at the moment, one line for each."""
        return tuple(str(s.fault) for s in self._pool.servers if s.fault is not None)

    async def start(self) -> None:
        """Check every server: that it is up and serves our model with exact tokens and logprobs.

        Raises:
            ServerFault: No server answers.
            ConfigError: A server cannot be used as it is; the message says what to do.
        """
        await self._pool.start()

    async def generate(
        self,
        input_ids: Sequence[int],
        params: SamplingParams,
        *,
        session_id: str,
        seed: int,
        images: Sequence[str] | None = None,
    ) -> Generation:
        """Continue `input_ids`.

        Raises:
            EngineFailure: The request cannot be served: the servers' last error, or an answer that
                is impossible.
            ConfigError: A server cannot be used as it is, or not with these `params`.
        """
        if images and not self.capabilities.images:
            raise EngineFailure(
                "this engine takes no images; those that do are transformers and sglang, with a "
                "model that reads images"
            )
        turn = TurnRequest(list(input_ids), params, seed, tuple(images or ()))
        served = self._model
        check_request(turn.input_ids, params, vocab_size=served.vocab_size, model=served.name)
        session = self._sessions.setdefault(session_id, Session(session_id))
        if session.task is not None:
            raise EngineFailure(f"session {session_id!r} already has a running request")
        session.turn, session.aborted = session.turn + 1, False
        session.task = asyncio.create_task(self._deliver(session, turn))
        try:
            return await session.task
        except (asyncio.CancelledError, ServerFault):
            if not session.aborted or _being_cancelled():
                raise
            return Generation((), (), FinishReason.ABORT, weight_version=self._version())
        finally:
            session.task = None

    async def abort(self, session_id: str) -> None:
        """End the session's running request.

        What the server gives of an aborted turn is returned; where it gives nothing within
        `ABORT_SECONDS`, the connection is cut and the turn ends empty.
        """
        session = self._sessions.get(session_id)
        if session is None or session.task is None or session.aborted:
            return
        session.aborted, task, server = True, session.task, session.server
        if server is None or not await self._abort_on(server, session.request_id):
            task.cancel()
            return
        cut = asyncio.get_running_loop().call_later(ABORT_SECONDS, task.cancel)
        task.add_done_callback(lambda _: cut.cancel())

    async def release(self, session_id: str) -> None:
        """Forget the session; its running request, if it has one, is aborted."""
        await self.abort(session_id)
        session = self._sessions.pop(session_id, None)
        if session is not None and session.server is not None:
            session.server.sessions -= 1

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        self._pool.forget()
        self._client.close()

    async def aclose(self) -> None:
        """Close the connections from inside the event loop."""
        self._pool.forget()
        await self._client.aclose()

    @abstractmethod
    async def _check(self, server: Server) -> None:
        """See `http_pool.Check`."""

    @abstractmethod
    async def _write(self, server: Server, session: Session, turn: TurnRequest) -> Generation:
        """Ask one server, once."""

    @abstractmethod
    async def _abort_on(self, server: Server, request_id: str) -> bool:
        """End a request on its server; False where the server has no way to."""

    @abstractmethod
    def _version(self) -> str:
        """The weight version of a turn that was cut off."""

    async def _deliver(self, session: Session, turn: TurnRequest) -> Generation:
        """Send a turn until a server answers it, or the retries are used up."""
        failed: list[Server] = []
        for attempt in range(self._settings.retries + 1):
            try:
                server = await self._server_of(session, failed)
                session.request_id = f"{session.uid}_t{session.turn}_r{attempt}"
                with self._pool.busy(server):
                    generation = await self._write(server, session, turn)
                check_answer(generation, turn.params, self._model, server.url)
                return generation
            except ServerFault as fault:
                if fault.lost and session.server is not None:
                    self._pool.leave_out(session.server, fault)
                if not fault.passing or session.aborted or attempt == self._settings.retries:
                    raise
                failed += [session.server] if session.server is not None else []
                await asyncio.sleep(self._wait(attempt, fault))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _server_of(self, session: Session, failed: Sequence[Server]) -> Server:
        server = await self._pool.choose(session.server, failed)
        if server is not session.server:
            if session.server is not None:
                session.server.sessions -= 1
            server.sessions += 1
            session.server = server
        return server

    def _wait(self, attempt: int, fault: ServerFault) -> float:
        settings = self._settings
        return seconds_to_wait(attempt, settings.backoff, fault.retry_after, settings.longest_wait)


def _being_cancelled() -> bool:
    """Whether somebody cancelled the caller itself, not only the request that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
