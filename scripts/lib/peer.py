"""MinHash with locality-sensitive hashing, as it is found in libraries: the peer that `scripts/eval --peer` runs beside spinney.

  peer.py [ignored options] < documents.ndjson > documents with a cluster_root.ndjson

128 permutations of the word triples (of characters: five in a row) of title and text, 32 bands of 4; a document joins the first
leader of which its estimate is at least 0.7, and leads a cluster of its own otherwise. Needs numpy.
"""

import json
import sys
import zlib
from collections import defaultdict

import numpy

from peer_text import shingles, without_tags

PERMUTATIONS, BANDS, NEEDED = 128, 32, 0.7


def hashes(text):
    return numpy.array([zlib.crc32(run.encode()) for run in set(shingles(without_tags(text)))], dtype=numpy.uint64)


def main():
    random = numpy.random.default_rng(1)
    factors = random.integers(0, 1 << 63, PERMUTATIONS, dtype=numpy.uint64) * numpy.uint64(2) + numpy.uint64(1)
    offsets = random.integers(0, 1 << 63, PERMUTATIONS, dtype=numpy.uint64)
    half = numpy.uint64(32)
    leaders, buckets = [], defaultdict(list)
    rows = PERMUTATIONS // BANDS
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        document = json.loads(line)
        found = hashes(f"{document.get('title') or ''} {document.get('content') or ''}")
        # Multiply-shift (Dietzfelbinger and others, 1997): the upper bits of the products, modulo 2^64.
        minima = ((found[:, None] * factors[None, :] + offsets[None, :]) >> half).min(axis=0)
        keys = [(band, minima[band * rows : (band + 1) * rows].tobytes()) for band in range(BANDS)]
        near = sorted({leader for key in keys for leader in buckets.get(key, ())})
        alike = (leader for leader in near if (leaders[leader] == minima).mean() >= NEEDED)
        root = next(alike, None)
        if root is None:
            root = len(leaders)
            leaders.append(minima)
            for key in keys:
                buckets[key].append(root)
        document["cluster_root"] = f"{root:016x}"
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stderr.write(json.dumps({"nodes": len(leaders) * BANDS}) + "\n")


main()
