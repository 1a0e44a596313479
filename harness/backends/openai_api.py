"""Proprietary models and judges through the `openai` SDK, or any endpoint it can be pointed at."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import RequestError, ServerError
from .base import Completion, Identity, Sampling

# Models that think before they answer take another name for the limit and no temperature.
_REASONING = ("o1", "o3", "o4", "gpt-5")


class OpenAIBackend:
    """One OpenAI model. The SDK reads OPENAI_API_KEY and OPENAI_BASE_URL; its own retries are off.

    Args:
        model: the API's model name; a dated snapshot is best, since names move.
        read_timeout: seconds for one attempt.

    Raises:
        ServerError: if no key is set.
    """

    def __init__(self, model: str, *, read_timeout: float = 300.0) -> None:
        self._sdk = importlib.import_module("openai")
        self._model = model
        try:
            self._client = self._sdk.AsyncOpenAI(max_retries=0, timeout=read_timeout)
        except self._sdk.OpenAIError as error:
            raise ServerError(f"openai:{model}: {str(error).splitlines()[0]}") from error

    @property
    def url(self) -> str:
        """Where requests go."""
        return str(self._client.base_url).rstrip("/")

    async def identify(self, url: str) -> Identity:
        """The model as asked for; the dated snapshot that answers stands in each completion."""
        return Identity(url, "openai", self._model, None, {})

    async def complete(
        self, url: str, messages: list[dict[str, str]], sampling: Sampling, extra: dict[str, Any]
    ) -> Completion:
        """One answer. Raises RequestError typed by what went wrong."""
        fields = sampling.payload()
        if self._model.startswith(_REASONING):
            fields["max_completion_tokens"] = fields.pop("max_tokens")
            fields.pop("temperature")
        try:
            answer = await self._client.chat.completions.create(
                model=self._model, messages=messages, **fields, **extra
            )
        except self._sdk.APITimeoutError as error:
            raise RequestError("timeout", "no answer in time") from error
        except self._sdk.APIConnectionError as error:
            raise RequestError("connect", str(error.__cause__ or error)) from error
        except self._sdk.APIStatusError as error:
            from .messages import classify

            raise classify(error.status_code, error.response.content, error.response.headers) from error
        except (self._sdk.APIError, ValueError) as error:
            raise RequestError("bad_shape", str(error)[:160]) from error
        if not getattr(answer, "choices", None):
            raise RequestError("bad_shape", "not a chat completion: no choices")
        choice = answer.choices[0]
        if choice.finish_reason == "content_filter" or getattr(choice.message, "refusal", None):
            raise RequestError("filtered", "the answer was refused or filtered by the API")
        text = choice.message.content or ""
        if not text.strip() and choice.finish_reason == "length":
            used_up = "the answer is empty, its tokens are used up (finish_reason length)"
            raise RequestError("exhausted", used_up)
        if not text.strip():
            raise RequestError("empty", f"the answer is empty (finish_reason {choice.finish_reason})")
        usage = answer.usage
        return Completion(
            text,
            choice.finish_reason or "",
            usage.prompt_tokens if usage else None,
            usage.completion_tokens if usage else None,
            answer.model or "",
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
