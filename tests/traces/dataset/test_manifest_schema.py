"""Manifests made from their declaration are read; any change to one is read or refused with one line."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.dataset.mutations import ODD
from traces.dataset.manifest import SCHEMA_VERSION, Manifest, checked_manifest
from traces.dataset.paths import NotADataset
from traces.schema import TABLES

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def declared(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Values that a declared type allows."""
    match kind:
        case msgspec.inspect.StructType():
            return st.fixed_dictionaries({field.encode_name: declared(field.type) for field in kind.fields})
        case msgspec.inspect.UnionType():
            return st.one_of(*map(declared, kind.types))
        case msgspec.inspect.ListType():
            return st.lists(declared(kind.item_type), max_size=3)
        case msgspec.inspect.DictType():
            return st.just({}) if isinstance(kind.value_type, msgspec.inspect.AnyType) else rows(kind)
        case msgspec.inspect.LiteralType():
            return st.sampled_from(kind.values)
        case msgspec.inspect.StrType():
            return (
                st.from_regex(kind.pattern, fullmatch=True) if kind.pattern else st.text(max_size=kind.max_length or 20)
            )
        case msgspec.inspect.IntType():
            return st.integers(kind.ge or 0, (kind.lt or 1 << 40) - 1)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
    raise AssertionError(f"no values for {kind}")


def rows(kind: msgspec.inspect.DictType) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(sorted(TABLES)), declared(kind.value_type))


MANIFESTS = declared(msgspec.inspect.type_info(Manifest)).map(lambda made: made | {"schema_version": SCHEMA_VERSION})


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@settings(max_examples=50, deadline=None)
@given(MANIFESTS)
def test_what_is_declared_is_read(made: dict[str, Any]) -> None:
    assert checked_manifest(encoded(made), "ds") == made


@settings(max_examples=200, deadline=None)
@given(MANIFESTS, st.data())
def test_a_changed_manifest_is_read_or_refused(made: dict[str, Any], data: st.DataObject) -> None:
    parent: Any = made
    key: Any = data.draw(st.sampled_from(sorted(made)))
    while isinstance(parent[key], dict | list) and parent[key] and data.draw(st.booleans()):
        parent = parent[key]
        key = data.draw(st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent))))
    if data.draw(st.integers(0, 4)):
        parent[key] = data.draw(ANY_JSON)
    else:
        del parent[key]
    content = encoded(made)
    if not data.draw(st.integers(0, 9)):
        content = content[: data.draw(st.integers(0, len(content)))]
    refusal, read = "", None
    try:
        read = checked_manifest(content, "ds")
    except NotADataset as error:
        refusal = str(error)
    if read is None:
        assert len(refusal.splitlines()) == 1
        return
    assert re.fullmatch("tables(-[0-9a-f]{12})?", read["tables"])
    assert re.fullmatch("[0-9a-f]{12}", read["content_key"])
    assert read["private"] is None or re.fullmatch("[0-9a-f]{12}", read["private"])
    assert all(type(count) is int and 0 <= count < 1 << 62 for count in read["rows"].values())
    assert all(0 <= each["order"] < 1 << 31 and len(each["label"]) <= 200 for each in read["inputs"])


@pytest.mark.parametrize("key", ["tables", "private", "content_key"])
def test_a_name_does_not_end_with_a_newline(key: str) -> None:
    made = {
        "schema_version": SCHEMA_VERSION,
        "tool": "tracetower",
        "tables": "tables",
        "content_key": "0" * 12,
        "inputs": [],
    }
    checked_manifest(encoded(made), "ds")
    with pytest.raises(NotADataset):
        checked_manifest(encoded(made | {key: ("tables-" if key == "tables" else "") + "0" * 12 + "\n"}), "ds")
