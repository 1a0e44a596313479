"""The Messages API (``/v1/chat/completions``) of TGI, vLLM, SGLang, llama.cpp and `transformers serve`.

On aiohttp and orjson, which cost a fraction of the client CPU of the SDKs; a run of many shards is
bound by it.
"""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from typing import Any

import aiohttp
import orjson

from ..errors import RequestError, ServerError, redact
from .base import UNKNOWN, Completion, Identity, Sampling

_ENGINES = frozenset({"vllm", "sglang", "llamacpp"})
_OVERLOADED = ("overloaded", "queue is full", "too many requests")


def _snippet(body: bytes) -> str:
    text = " ".join(body[:300].decode("utf-8", "replace").split())
    return text[:160]


def _looks_like_html(body: bytes) -> bool:
    return body.lstrip()[:15].lower().startswith((b"<!doctype", b"<html", b"<head"))


def _retry_after(headers: Any) -> float | None:
    try:
        seconds = float(headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < 3600 else None


def classify(status: int, body: bytes, headers: Any) -> RequestError:
    """The typed failure of an answer that is not 200."""
    text = _snippet(body)
    lowered = text.lower()
    kind = "bad_request"
    if status == 429:
        kind = "overloaded" if any(sign in lowered for sign in _OVERLOADED[:2]) else "rate_limited"
    elif status in {401, 403}:
        kind = "unauthorized"
    elif status == 404:
        kind = "not_found"
    elif status == 408:
        kind = "timeout"
    elif status == 503 and any(sign in lowered for sign in _OVERLOADED):
        kind = "overloaded"
    elif status == 424 or status >= 500:
        # TGI reports a failed generation as 424.
        kind = "server_error"
    elif "content_filter" in lowered or "content management policy" in lowered:
        kind = "filtered"
    return RequestError(kind, f"HTTP {status}: {text}", status=status, retry_after=_retry_after(headers))


def _parse(body: bytes) -> Completion:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        what = "an HTML page" if _looks_like_html(body) else "no JSON"
        raise RequestError("not_json", f"the server answered {what}: {_snippet(body)}") from error
    try:
        choice = answer["choices"][0]
        content = choice["message"].get("content")
        finish = choice.get("finish_reason") or ""
        usage = answer.get("usage") or {}
        model = answer.get("model") or ""
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (LookupError, TypeError, AttributeError) as error:
        raise RequestError("bad_shape", f"not a chat completion: {_snippet(body)}") from error
    if finish == "content_filter":
        raise RequestError("filtered", "the server filtered the answer")
    if content is not None and not isinstance(content, str):
        raise RequestError("bad_shape", f"content is not text: {_snippet(body)}")
    if (not content or not content.strip()) and finish == "length":
        # All tokens went into thinking that the server keeps: another attempt would cost the same again.
        raise RequestError(
            "exhausted", "the answer is empty, all its tokens were used up (finish_reason length)"
        )
    if not content or not content.strip():
        raise RequestError("empty", f"the answer is empty (finish_reason {finish or 'absent'})")
    return Completion(content, finish, prompt, completion, str(model))


class MessagesBackend:
    """Client of one or more Messages-API servers.

    Args:
        token: bearer token, sent with every request and never logged.
        model: value of the ``model`` field; None sends what the server said it serves.
        connect_timeout: seconds until a connection stands. read_timeout: seconds for one attempt in all,
            so that a server that dribbles bytes does not hold a place for ever.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        model: str | None = None,
        connect_timeout: float = 10.0,
        read_timeout: float = 300.0,
    ) -> None:
        self._token = token
        self._model = model
        self._served: dict[str, str] = {}
        self._timeout = aiohttp.ClientTimeout(total=read_timeout, sock_connect=connect_timeout)
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"Content-Type": "application/json"}
            if self._token:
                headers["Authorization"] = f"Bearer {self._token}"
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60, happy_eyeballs_delay=None)
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=headers,
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _get(self, url: str, path: str) -> Any:
        """JSON of a GET, None where the server has no such path or no answer for it."""
        try:
            async with self._open().get(f"{url}{path}", timeout=aiohttp.ClientTimeout(total=15)) as answer:
                body = await answer.read()
                status = answer.status
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise ServerError(redact(f"{url}: cannot be reached: {reason}")) from error
        if status in {401, 403}:
            raise ServerError(redact(f"{url}: HTTP {status}: the server refuses the token"))
        if status != 200:
            return None
        if _looks_like_html(body):
            page = f"{url}{path}: answers an HTML page, not JSON; is this a Messages API server?"
            raise ServerError(redact(page))
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            return None

    async def identify(self, url: str) -> Identity:
        """Who serves at ``url``: TGI's ``/info``, else ``/v1/models`` and ``/version``.

        Raises:
            ServerError: unreachable, refused token, HTML instead of JSON.
        """
        info = await self._get(url, "/info")
        if isinstance(info, dict) and isinstance(info.get("model_id"), str):
            kept = (
                "model_dtype",
                "version",
                "max_concurrent_requests",
                "max_input_tokens",
                "max_total_tokens",
            )
            details = {name: info[name] for name in kept if info.get(name) is not None}
            name = info["model_id"]
            self._served[url] = name
            shown = PurePath(name).name if name.startswith("/") else name
            return Identity(url, "tgi", shown, info.get("model_sha"), details)
        models = await self._get(url, "/v1/models")
        version = await self._get(url, "/version")
        details = version if isinstance(version, dict) else {}
        listed = models.get("data") if isinstance(models, dict) else None
        served = [item for item in listed or [] if isinstance(item, dict) and isinstance(item.get("id"), str)]
        chosen = next((item for item in served if item["id"] == self._model), served[0] if served else {})
        name = self._model or chosen.get("id", "")
        # vLLM, SGLang and llama.cpp sign the models they list; vLLM and SGLang tell their longest context.
        engine = chosen.get("owned_by")
        if isinstance(chosen.get("max_model_len"), int):
            details = {**details, "max_model_len": chosen["max_model_len"]}
        self._served[url] = name
        known = engine if engine in _ENGINES else "messages"
        # A server started from a folder or file names it; which folder is this machine's business.
        shown = PurePath(name).name if name.startswith("/") else name
        return Identity(url, known, shown or UNKNOWN, None, details)

    async def complete(
        self, url: str, messages: list[dict[str, str]], sampling: Sampling, extra: dict[str, Any]
    ) -> Completion:
        """One answer of the server at ``url``.

        Raises:
            RequestError: typed by what went wrong; see ``errors.RETRYABLE``.
        """
        model = self._model or self._served.get(url) or "tgi"
        payload = {"model": model, "messages": messages, "stream": False, **sampling.payload(), **extra}
        try:
            async with self._open().post(f"{url}/v1/chat/completions", data=orjson.dumps(payload)) as answer:
                body = await answer.read()
                status, headers = answer.status, answer.headers
        except (asyncio.TimeoutError, aiohttp.ServerTimeoutError) as error:
            raise RequestError("timeout", f"no answer in time: {type(error).__name__}") from error
        except aiohttp.ClientConnectorError as error:
            raise RequestError("connect", str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise RequestError("reset", str(error) or type(error).__name__) from error
        if status != 200:
            raise classify(status, body, headers)
        return _parse(body)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
