"""The manifest of a dataset as a declaration: keys, types and values that it may have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from traces.dataset.paths import NotADataset
from traces.schema import TABLES

SCHEMA_VERSION = 1
MOST_BYTES = 64 << 20
AGAIN = "ingest it again, or ask its owner for a complete copy"

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Generation = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]


class Input(msgspec.Struct, kw_only=True):
    """One input: its label in the tables, its place when inputs are sorted by name, its format, a keyed digest."""

    label: Name
    order: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    format: Name
    digest: Name = ""


class Receipt(msgspec.Struct, kw_only=True):
    """The part of a receipt that pages read; there may be more."""

    formats: dict[Name, Count] = {}
    files: dict[Name, Any] = {}
    records: dict[Name, Count] = {}
    requests: Count | None = None
    sessions: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    unknown_usage_requests: Count | None = None
    incomplete_output_requests: Count | None = None
    failed_attempts: Count | None = None
    block_size: Count | None = None
    tokenizer: str | None = None
    time_basis: Name | None = None
    time_unit: Name | None = None
    warnings: list[str] = []


class Manifest(msgspec.Struct, kw_only=True, omit_defaults=False):
    """What manifest.json says. Keys without a default have to be there.

    Attributes:
        tables: folder of the current tables: tables-GENERATION, in a bundle plain `tables`.
        private: folder of the generation inside private/; None in a dataset that came without.
        content_key: name of the generation.
        rows: rows of each table.
        copies: requests left out as copies of others, by the source's id or by fingerprint.
        receipt: what the ingest counted, without names of files.
        resume: where a killed ingest stands (only in an unfinished dataset).
    """

    schema_version: int
    tool: Literal["tracetower"]
    tool_version: Name = ""
    tables: Annotated[str, msgspec.Meta(pattern=r"^tables(-[0-9a-f]{12})?\Z")]
    private: Generation | None = None
    content_key: Generation
    bundle: bool = False
    tokenizers: list[str] = []
    tokenizer_digest: Name | None = None
    one_trace: bool = False
    rows: dict[Name, Count] = {}
    copies: Count = 0
    copies_by_fingerprint: Count = 0
    inputs: list[Input]
    receipt: dict[str, Any] | None = None
    resume: dict[str, Any] | None = None


def read_manifest(path: Path, name: str) -> dict[str, Any]:
    """The checked manifest in the file `path` of the dataset called `name`, with every optional key filled in.

    Raises:
        NotADataset: naming the key that is missing or has another type.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise NotADataset(f"{name}: its manifest.json has more than {MOST_BYTES >> 20} MiB; {AGAIN}")
        return checked_manifest(path.read_bytes(), name)
    except OSError as error:
        raise NotADataset(f"{name}: its manifest.json cannot be read ({error.strerror}); {AGAIN}") from None


def checked_manifest(content: bytes, name: str) -> dict[str, Any]:
    """The checked manifest with the text `content`; see `read_manifest`."""
    try:
        version = msgspec.json.decode(content, type=_Version).schema_version
        if version != SCHEMA_VERSION:
            raise NotADataset(f"{name}: its schema version is {version}, this release reads {SCHEMA_VERSION}; {AGAIN}")
        manifest = msgspec.json.decode(content, type=Manifest)
        if manifest.receipt is not None:
            msgspec.convert(manifest.receipt, Receipt)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        if isinstance(error, NotADataset):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise NotADataset(f"{name}: its manifest.json is not valid ({reason:.200}); {AGAIN}") from None
    unknown = manifest.rows.keys() - TABLES.keys()
    if unknown:
        raise NotADataset(f"{name}: its manifest.json counts rows of unknown tables; {AGAIN}")
    return {key: msgspec.to_builtins(getattr(manifest, key)) for key in manifest.__struct_fields__}


class _Version(msgspec.Struct):
    schema_version: int
