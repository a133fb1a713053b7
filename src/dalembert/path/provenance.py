"""Provenance: everything needed to run again, as plain text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The record of a run, with everything needed to repeat it: plain text, so that it can be stored. A traced run has
    none.

    Attributes:
        system: the functions of the system, by module and name.
        source: source text of these functions.
        source_hash: SHA-256 of the source text, which `matches` compares.
        parameters: names and values, as JSON.
        coordinates: the names of q; () if there are none.
        scheme: maps and form of the Scheme; "" for a DiscreteSystem.
        starter: the starter of a two-step form.
        branch: the rule that chooses among roots; "" if there is none.
        run: the other arguments of the call, as JSON.
        versions: versions of Python, dalembert and the packages that it computes with, as JSON.

    Example:
        >>> type(path.provenance.source_hash)
        <class 'str'>
    """

    system: str
    source: str
    source_hash: str
    parameters: str
    coordinates: tuple[str, ...]
    scheme: str
    starter: str
    branch: str
    run: str
    versions: str

    @classmethod
    def later(cls, texts: Callable[[], dict[str, Any]], subject: Any = None) -> Provenance:
        """A record whose text is written when it is first read. texts: returns the fields, from values of the call;
        subject: see `subject`."""
        record = object.__new__(cls)
        object.__setattr__(record, "_texts", texts)
        object.__setattr__(record, "_subject", subject)
        return record

    @property
    def subject(self) -> Any:
        """The system that was run, for pictures: a `drawing.Depicted`, or None. It exists only in the process that ran
        it; it is never stored, and not compared."""
        return self.__dict__.get("_subject")

    def of(self, subject: Any) -> Provenance:
        """The same record with this subject."""
        record = type(self)(*(getattr(self, field.name) for field in dataclasses.fields(self)))
        object.__setattr__(record, "_subject", subject)
        return record

    def __getattr__(self, name: str) -> Any:
        texts = self.__dict__.get("_texts")
        if name in self.__dataclass_fields__ and texts is not None:
            self.__dict__.update(texts())
            self.__dict__.pop("_texts", None)
        if name in self.__dict__:  # now, or by another thread
            return self.__dict__[name]
        raise AttributeError(f"a Provenance has no attribute {name}")

    def __reduce__(self):
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))
