"""Near-duplicate clusters by a library of Python: a peer of scripts/bench peers.

  peer_cluster.py LIBRARY [THRESHOLD] < documents.ndjson > roots

LIBRARY is datasketch, rensa-r or rensa-c; for each document a line with the number of the document that leads its
cluster. With "shingles" nothing is clustered, and a line has the number of the document's shingles: what Python does
before a library has anything to do.
"""

import json
import sys
import zlib
from itertools import islice

from peer_text import shingles

PERMUTATIONS, SEED = 128, 1
# Documents in one call of a library: more are no faster, and take more memory.
BATCH = 100


def texts(lines):
    for line in lines:
        document = json.loads(line)
        yield f"{document['title']} {document['content']}"


def batches(items, size=BATCH):
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


def cluster(sketches, index):
    """The leader of each sketch, in the order of arrival.

    A sketch joins the first leader that the index finds near it, or leads: only leaders are in the index.
    """
    for number, sketch in enumerate(sketches):
        leader = min(index.near(sketch), default=None)
        if leader is None:
            index.add(number, sketch)
            leader = number
        yield leader


class Rensa:
    """Its deduplicators look up, and hold the estimate against the threshold."""

    def __init__(self, kind, threshold):
        import rensa
        if kind == "r":
            self.sketch = rensa.RMinHash
            self.index = rensa.RMinHashDeduplicator(threshold, PERMUTATIONS, use_lsh=True, seed=SEED)
        else:
            self.sketch = rensa.CMinHash
            self.index = rensa.CMinHashDeduplicator(threshold, PERMUTATIONS, seed=SEED)

    def sketches(self, batch):
        return self.sketch.from_token_sets(batch, PERMUTATIONS, SEED)

    def near(self, sketch):
        return map(int, self.index.get_duplicates(sketch))

    def add(self, number, sketch):
        self.index.add(str(number), sketch)


class Datasketch:
    """Its index looks up; the estimate is held against the threshold here."""

    def __init__(self, threshold):
        import datasketch
        self.library, self.threshold, self.leaders = datasketch, threshold, {}
        self.index = datasketch.MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)

    def sketches(self, batch):
        for found in batch:
            # The hash is the fastest of Python's own: with the default, SHA-1, a signature takes twice as long.
            sketch = self.library.MinHash(PERMUTATIONS, seed=SEED, hashfunc=zlib.crc32)
            sketch.update_batch([shingle.encode() for shingle in found])
            yield sketch

    def near(self, sketch):
        found = self.index.query(sketch)
        return (leader for leader in found if self.leaders[leader].jaccard(sketch) >= self.threshold)

    def add(self, number, sketch):
        self.index.insert(number, sketch, check_duplication=False)
        self.leaders[number] = sketch


def open_library(name, threshold):
    return Datasketch(threshold) if name == "datasketch" else Rensa(name.removeprefix("rensa-"), threshold)


def main():
    library, *threshold = sys.argv[1:]
    found = map(shingles, texts(sys.stdin.buffer))
    if library == "shingles":
        answers = map(len, found)
    else:
        peer = open_library(library, float(*threshold))
        answers = cluster((sketch for batch in batches(found) for sketch in peer.sketches(batch)), peer)
    sys.stdout.writelines(f"{answer}\n" for answer in answers)


if __name__ == "__main__":
    main()
