"""The published JSON Schema is that of the code."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from firstfault.case.schema import Case

PUBLISHED = Path(__file__).parents[2] / "docs" / "case.schema.json"


def test_the_published_schema_is_that_of_the_code() -> None:
    """A change of the facts is a change of the format that is documented."""
    assert json.loads(PUBLISHED.read_text()) == json.loads(json.dumps(msgspec.json.schema(Case)))
