"""Real HTTP servers for tests: a Messages API over aiohttp in a thread, with faults on request.

Its answers are a function of the messages alone, so that two runs can be compared. Every request and
answer is checked against the contract with TGI (``tgi_contract.json``); what breaks it is in ``problems``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from aiohttp import web
from jsonschema import Draft202012Validator

Fault = Callable[[web.Request, dict[str, Any], int], Awaitable["web.StreamResponse | None"]]


CONTRACT: dict[str, Any] = json.loads((Path(__file__).parent / "tgi_contract.json").read_text())


def breaches(name: str, value: Any) -> list[str]:
    """How ``value`` breaks the part ``name`` of the contract with TGI."""
    validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": CONTRACT["$defs"]})
    return [f"{name} {error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def default_answer(messages: list[dict[str, str]]) -> str:
    """A deterministic reply: a verdict when judging, otherwise some words picked by digest."""
    text = json.dumps(messages, sort_keys=True)
    number = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    if messages[0]["role"] == "system" and messages[0]["content"].startswith("You judge"):
        return json.dumps({"reason": "as the digest says", "score": (number % 11) / 2})
    words = messages[-1]["content"].split()
    start = number % max(1, len(words) - 8)
    return f"(nods, {number % 1000}) " + " ".join(words[start : start + 12]) + "."


class ChatServer:
    """A Messages-API server on a free port of 127.0.0.1.

    Args:
        answer: messages -> text. delay: seconds before each answer.
        fault: called first with the request, its body and how often this body was seen before (0, 1, …);
            may answer by itself or raise. info: what ``/info`` says; None has no such path.
        token: the bearer token to insist on.

    Leaving it fails if a request or a regular answer broke the contract, unless ``lenient``.
    """

    def __init__(
        self,
        answer: Callable[[list[dict[str, str]]], str] = default_answer,
        *,
        delay: float = 0.0,
        fault: Fault | None = None,
        info: dict[str, Any] | None = None,
        token: str | None = None,
        port: int = 0,
    ) -> None:
        self.answer = answer
        self.delay = delay
        self.fault = fault
        self.info = {"model_id": "test/model", "model_sha": "abc123"} if info is None else info
        if self.info:
            self.info = {"version": "3.3.5", **self.info}
        self.token = token
        self.models = [{"id": "test/model", "object": "model"}]
        self.usage: dict[str, Any] | None = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        self.calls: Counter[str] = Counter()
        self.requests = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.problems: list[str] = []
        self.lenient = False
        self._port = port
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> ChatServer:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None and not self.lenient:
            assert not self.problems, self.problems[:3]

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())

    async def _main(self) -> None:
        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=64 << 20)
        app.router.add_get("/health", self._health)
        app.router.add_get("/info", self._info)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self._ready.set()
        await self._stopping.wait()
        await runner.cleanup()

    def _authorised(self, request: web.Request) -> bool:
        return self.token is None or request.headers.get("Authorization") == f"Bearer {self.token}"

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def _info(self, request: web.Request) -> web.StreamResponse:
        if not self.info:
            raise web.HTTPNotFound
        self.problems += breaches("info", self.info)
        return web.json_response(self.info)

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": self.models})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if not self._authorised(request):
            return web.json_response({"error": "unauthorized", "error_type": "unauthorized"}, status=401)
        body = await request.json()
        self.problems += breaches("request", body)
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        seen = self.calls[key]
        self.calls[key] += 1
        self.requests += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            if self.fault is not None:
                answer = await self.fault(request, body, seen)
                if answer is not None:
                    return answer
            made = self.completion(self.answer(body["messages"]))
            self.problems += breaches("completion", json.loads(made.text or ""))
            return made
        finally:
            self.in_flight -= 1

    def completion(self, text: str | None, finish: str = "stop") -> web.Response:
        return web.json_response(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": "test/model",
                "system_fingerprint": "3.0",
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
                ],
                "usage": self.usage,
            }
        )
