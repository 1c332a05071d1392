"""Results of batch interfaces: OpenAI's output file, Anthropic's results, Gemini's and Bedrock's, one answer a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.calls.answer_passes import requests
from traces.calls.model_calls import Call, Calls, number_of, text_of
from traces.formats.gateways.export_rows import taken
from traces.records import Context, Note, Record, Skipped
from traces.source.sources import Head, Source

NAME = "batch_results"
SUMMARY = {
    "carries": "answers and usage; prompts only in Bedrock's (modelInput), else they are in the batch's input file",
    "time": "wall where the answer has `created`, else none",
    "computes": "lengths, reported cache figures",
    "notes": "OpenAI (custom_id, response.body), Anthropic (custom_id, result.message), Gemini (key, response), "
    "Bedrock (recordId, modelOutput)",
}
_NO_PROMPTS = (
    "batch results hold answers and usage, no prompts: the rate that the provider reported is known, the ceiling is not"
)


def sniff(head: Head, name: str) -> float:
    """Sure where a record names its place in a batch beside an answer."""
    record = head.record
    if not isinstance(record, dict):
        return 0.0
    return 0.95 if _answered(record) is not None else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the answered calls in the order of the file."""
    reader = _Reader(context)
    yield from taken(source, reader.take)
    if reader.without_prompt:
        yield Note(_NO_PROMPTS)


def _answered(record: Mapping[str, Any]) -> tuple[Any, Any, str | None] | None:
    """(request body, answer, why there is none) of a record; None where it is no result of a batch."""
    for name, place in (("result", "message"), ("response", "body")):
        outcome = record.get(name)
        if "custom_id" in record and name in record:
            if not isinstance(outcome, dict):
                return None, None, "a call of the batch that failed"
            status = outcome.get("status_code", 200)
            failed = outcome.get("type") not in (None, "succeeded") or (isinstance(status, int) and status >= 400)
            return None, outcome.get(place), "a call of the batch that failed or expired" if failed else None
    if "recordId" in record and ("modelOutput" in record or "modelInput" in record):
        failed = not isinstance(record.get("modelOutput"), dict)
        return (
            record.get("modelInput"),
            record.get("modelOutput"),
            "a call of the batch that failed" if failed else None,
        )
    if "key" in record and isinstance(record.get("response"), dict) and "candidates" in record["response"]:
        return None, record["response"], None
    return None


class _Reader:
    def __init__(self, context: Context) -> None:
        self.calls = Calls(context)
        self.without_prompt = 0

    def take(self, ordinal: int, record: Mapping[str, Any]) -> Iterator[Record]:
        found = _answered(record)
        if found is None:
            raise ValueError("no result of a batch")
        body, answer, failure = found
        if failure is not None or not isinstance(answer, dict) or answer.get("error"):
            yield Skipped("failed_attempt", 1, failure or "a call of the batch that failed", ordinal)
            return
        self.without_prompt += not isinstance(body, dict)
        yield from requests(
            self.calls,
            Call(
                key=str(ordinal),
                ordinal=ordinal,
                request=body if isinstance(body, dict) else None,
                answer=answer,
                arrival_s=number_of(answer, "created", "created_at"),
                identity=text_of(answer, "id", "responseId"),
            ),
        )
