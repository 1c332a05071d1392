"""VCR cassettes (YAML recordings of HTTP) as pairs. A cassette with aliases is refused: they can unfold without end."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

MAX_BYTES = 16 << 20
MAX_DEPTH = 60
MAX_BODY_BYTES = 64 << 20

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def interactions(data: bytes) -> list[Any]:
    """The recorded interactions of a cassette.

    Raises:
        ValueError: It is no cassette, too large to be held, or made to unfold without end.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"a cassette of more than {MAX_BYTES >> 20} MiB is not read: give its pairs as JSONL")
    depth = 0
    try:
        for event in yaml.parse(data, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("a YAML file with aliases is not read")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise ValueError("nested too deeply")
        document = yaml.load(data, Loader=_Loader)  # a safe loader
    except (yaml.YAMLError, UnicodeError, RecursionError, OverflowError, TypeError):
        raise ValueError("not valid YAML") from None
    found = document.get("interactions") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise ValueError("no list of interactions: not a VCR cassette")
    return found


def pairs(data: bytes) -> Iterator[Any]:
    """Each interaction as a pair (traces.formats.gateways.llm_pairs): method, uri, headers, request, response, status.

    Raises:
        ValueError: as `interactions`.
    """
    for one in interactions(data):
        request = one.get("request") if isinstance(one, dict) else None
        response = one.get("response") if isinstance(one, dict) else None
        if not isinstance(request, dict) or not isinstance(response, dict):
            yield None
            continue
        yield {
            "method": request.get("method"),
            "uri": request.get("uri"),
            "request_headers": request.get("headers"),
            "request": _body(request),
            "status": response.get("status"),
            "response_headers": response.get("headers"),
            "response": _body(response),
            "recorded_at": one.get("recorded_at"),
        }


def _body(side: Mapping[str, Any]) -> Any:
    if side.get("parsed_body") is not None:
        return side["parsed_body"]
    body = side.get("body", side.get("content"))
    if isinstance(body, dict):
        body = body.get("string")
    if isinstance(body, bytes):
        if body[:2] == b"\x1f\x8b":
            try:
                body = zlib.decompressobj(31).decompress(body, MAX_BODY_BYTES)
            except zlib.error:
                return None
        return body.decode("utf-8", "replace")
    return body
