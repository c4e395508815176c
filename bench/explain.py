"""How many error texts the catalogue classifies rightly: ``python bench/explain.py FILE``.

FILE holds one JSON object a line with ``text`` and the ``fault`` that it turned out to be. A wrong class is worse than
``other``, so the two are counted apart.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from firstfault.faults.classify import classify_text


def main(path: str) -> None:
    rows = [json.loads(line) for line in Path(path).read_text().splitlines() if line.strip()]
    confusion: Counter[tuple[str, str]] = Counter()
    for row in rows:
        said = classify_text(row["text"]).fault
        confusion[row["fault"], said] += 1
        if said != row["fault"]:
            print(f"{row.get('id', '?'):<32} is {row['fault']:<24} said {said}")
    names = sorted({name for pair in confusion for name in pair})
    print(f"\n{'is / said':<24} " + " ".join(f"{name[:8]:>8}" for name in names))
    for actual in names:
        counts = [confusion[actual, said] for said in names]
        if any(counts):
            print(f"{actual:<24} " + " ".join(f"{count or '·':>8}" for count in counts))
    right = sum(count for (actual, said), count in confusion.items() if actual == said)
    other = sum(count for (actual, said), count in confusion.items() if said == "other" != actual)
    print(f"\n{right} of {len(rows)} right, {other} said other, {len(rows) - right - other} wrong")


if __name__ == "__main__":
    main(sys.argv[1])
