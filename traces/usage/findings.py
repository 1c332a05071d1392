"""The evidence of many inputs put together, format by format: sentences for the receipt and the table `sources`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from traces.records import Evidence

ODD = "the total equals no sum of the parts"


class Findings:
    """Adds up what the inputs of a dataset, or of one ingest, showed of their usage figures."""

    def __init__(self, shown: Iterable[tuple[str, Evidence]] = ()) -> None:
        self._found: dict[tuple[str, str], Evidence] = {}
        for format_name, evidence in shown:
            self._add(format_name, evidence)

    def _add(self, format_name: str, evidence: Evidence) -> None:
        known = self._found.get((format_name, evidence.meaning))
        if known is not None:
            proofs = Counter(dict(known.proofs))
            proofs.update(dict(evidence.proofs))
            evidence = evidence._replace(
                records=known.records + evidence.records,
                proofs=tuple(sorted(proofs.items())),
                contradicting=known.contradicting + evidence.contradicting,
                example=known.example or evidence.example,
                assumed=known.assumed + evidence.assumed,
            )
        self._found[format_name, evidence.meaning] = evidence

    def sentences(self) -> list[dict[str, Any]]:
        """One sentence a format: what its usage figures mean and what shows it (receipt `evidence`)."""
        return [
            {"source": name, "sentence": "; ".join(map(_sentence, shown)), "records": _records(shown)}
            for name in dict.fromkeys(name for name, _ in self._found)
            if (shown := self._of(name))
        ]

    def sentence(self, format_name: str) -> str | None:
        """The sentence of a format; None where it has no usage figures."""
        return "; ".join(map(_sentence, self._of(format_name))) or None

    def _of(self, format_name: str) -> list[Evidence]:
        found = [one for (name, _), one in self._found.items() if name == format_name and one.records]
        known = [one for one in found if one.proofs]
        return sorted(known or found, key=lambda one: (one.meaning.split()[0], -one.records))

    def warnings(self) -> list[str]:
        """What contradicts itself, and what was only assumed, each with its count."""
        found = []
        for (name, _), one in self._found.items():
            if one.meaning == ODD:
                found.append(
                    f"{name}: {ODD} in {one.contradicting:,} usage objects, so it decided nothing there (for example "
                    f"{one.example})"
                )
            elif one.contradicting:
                found.append(
                    f"{name}: {one.meaning} in most of {one.records:,} usage objects, but {one.contradicting:,} "
                    f"contradict that, with more cached tokens than input or another total (for example {one.example})"
                )
            if one.assumed:
                exceeds = any("exceed" in proof for proof, _ in one.proofs)
                why = "their cached tokens exceed the input" if exceeds else "only the names or the provider suggest it"
                found.append(
                    f'{name}: "{one.meaning}" is assumed for {one.assumed:,} of {one.records:,} usage objects, '
                    f"since {why} (a total per record would show it)"
                )
        return found


def _records(found: list[Evidence]) -> int:
    """The usage objects in which a meaning of the input matters; where it matters in none, one of the output."""
    return sum(one.records for one in found if one.meaning.startswith("input")) or max(one.records for one in found)


def _sentence(one: Evidence) -> str:
    if not one.proofs:
        return one.meaning
    proofs = [f"{proof} in {count:,} of {one.records:,}" for proof, count in sorted(one.proofs, key=lambda p: -p[1])]
    return f"{one.meaning} ({', '.join(proofs)})"
