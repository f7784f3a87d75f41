"""scripts/bench peers: spinney and libraries for near-duplicates over one collection, with one thread on one core.

Needs Linux, two cores, and Python 3 with venv and pip for the libraries of Python, which are left out where they cannot
be installed.
"""

import argparse
import json
import lzma
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from common import ROOT, build, die, megabytes, peer_python, say, target_directory, tell
from peer_text import without_tags
from press_releases import releases

# The core of what is measured, and that of everything else.
CPU, OTHER_CPU = 1, 0
LIBRARIES = ["gaoya", "rensa", "datasketch", "shingles"]
THRESHOLDS = ["0.5", "0.7"]
SAMPLE, QUICK_DOCS = ROOT / "scripts/sample/pairs.ndjson", 1_000
# How the labels of press releases come; others follow by name.
LABELS = ["dup", "partial", "template", "boilerplate", "event", "followup"]
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Between two looks at the memory of a process, in seconds.
LOOK = 0.005


def unpacked(path):
    return lzma.open(path, "rt", encoding="utf8") if path.suffix == ".xz" else open(path, encoding="utf8")


def documents(path):
    with unpacked(path) as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def prepare(found, path, most=None):
    """Writes what every peer reads: id, title and content without tags. The ids, in order."""
    ids = []
    with open(path, "w", encoding="utf8") as file:
        for number, document in enumerate(found):
            if number == most:
                break
            ids.append(str(document.get("id") or f"line {number + 1}"))
            plain = {name: without_tags(document.get(name) or "") for name in ("title", "content")}
            file.write(json.dumps({"id": ids[-1], **plain}, ensure_ascii=False) + "\n")
    return ids


def labelled(path):
    """Pairs of ids by label. The first line may be a header: its names are no ids."""
    found = {}
    with unpacked(path) as lines:
        for line in lines:
            one, other, label, *_ = line.rstrip("\n").split("\t") + ["", ""]
            if label:
                found.setdefault(label, []).append((one, other))
    return found


def score(ids, roots, pairs):
    """For each label the share of its pairs that are in one cluster, and how many are among the documents."""
    root = dict(zip(ids, roots))
    place = lambda label: LABELS.index(label) if label in LABELS else len(LABELS)
    found = {}
    for label in sorted(pairs, key=lambda label: (place(label), label)):
        together = [root[one] == root[other] for one, other in pairs[label] if one in root and other in root]
        if together:
            found[label] = sum(together) / len(together), len(together)
    return found


class Peer:
    def __init__(self, library, name, command):
        self.library, self.name, self.command = library, name, command
        # The cluster of a document, from its line of the output.
        self.read = str.strip
        self.seconds, self.peak = [], 0

    def run(self, input_path, output):
        """Processor time of the whole process, and its peak of memory at the last look before its end."""
        with open(input_path, "rb") as source, tempfile.TemporaryFile() as log:
            # taskset turns into the process, so its id is that of the peer.
            process = subprocess.Popen(
                ["taskset", "-c", str(CPU), *self.command], stdin=source, stdout=output, stderr=log,
                env={**os.environ, **ONE_THREAD})
            try:
                peak, ended = 0, 0
                while not ended:
                    peak = megabytes(process.pid, "VmHWM") or peak
                    time.sleep(LOOK)
                    ended, status, used = os.wait4(process.pid, os.WNOHANG)
                process.returncode = os.waitstatus_to_exitcode(status)
            finally:
                # Does nothing to a process that has ended.
                process.kill()
                process.wait()
            if process.returncode:
                log.seek(0)
                die(f"{self.name} failed: {log.read().decode(errors='replace')}")
        return used.ru_utime + used.ru_stime, peak

    def roots(self, input_path, work):
        """The cluster of each document, by a run that is not timed."""
        with open(work / "output", "w+b") as output:
            self.run(input_path, output)
            output.seek(0)
            return [self.read(line.decode()) for line in output]

    def measure(self, input_path):
        seconds, peak = self.run(input_path, subprocess.DEVNULL)
        self.seconds.append(seconds)
        self.peak = max(self.peak, peak)


def build_gaoya():
    say("building gaoya")
    target = target_directory() / "peers"
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--bin", "gaoya-cluster"]
    place = ["--manifest-path", ROOT / "benches/peers/Cargo.toml", "--target-dir", target]
    if subprocess.run(command + place).returncode:
        die("the build of gaoya failed")
    return str(target / "release/gaoya-cluster")


def peers(wanted, binary):
    """What is measured, spinney first."""
    found = []
    add = lambda library, name, *command: found.append(Peer(library, name, list(command)))
    fields = ["--id-field", "id", "--title-field", "title", "--text-field", "content"]
    add("spinney", "spinney", binary or build(), "stamp", "--method", "verified", "--threads", "1", *fields)
    found[0].read = lambda line: json.loads(line)["cluster_root"]
    if wanted & {"gaoya", "shingles"}:
        program = build_gaoya()
        for threshold in THRESHOLDS:
            add("gaoya", f"gaoya MinHash {threshold}", program, "minhash", threshold)
        add("gaoya", "gaoya SimHash 3", program, "simhash", "3")
        add("shingles", "shingles alone, Rust", program, "shingles")
    python = peer_python("minhash") if wanted & {"rensa", "datasketch", "shingles"} else None
    if python is not None:
        program = [python, str(ROOT / "scripts/lib/peer_cluster.py")]
        for threshold in THRESHOLDS:
            add("rensa", f"rensa R-MinHash {threshold}", *program, "rensa-r", threshold)
            add("rensa", f"rensa C-MinHash {threshold}", *program, "rensa-c", threshold)
            add("datasketch", f"datasketch MinHash {threshold}", *program, "datasketch", threshold)
        add("shingles", "shingles alone, Python", *program, "shingles")
    return [peer for peer in found if peer.library in wanted | {"spinney"}]


def lines(peer, spinney, docs, size, clusters, scores):
    """What is printed of a peer: a line for each label, or one without."""
    seconds = statistics.median(peer.seconds)
    # Of each round, since the machine is not equally fast in all.
    ratio = statistics.median(own / other for own, other in zip(spinney.seconds, peer.seconds))
    figures = {
        "bench": "peers", "peer": peer.name, "docs": docs, "mb_per_s": round(size / 1e6 / seconds, 2),
        "docs_per_s": round(docs / seconds), "ratio_to_spinney": round(ratio, 3), "peak_rss_mb": round(peer.peak, 1),
        "clusters": clusters,
    }
    for label, (together, pairs) in scores.items():
        yield {**figures, "label": label, "together": round(together, 3), "pairs": pairs}
    if not scores:
        yield {**figures, "label": None, "together": None, "pairs": 0}


def measure(args, work):
    found = releases(args.data) if args.data else documents(args.input)
    say("preparing the documents")
    path = work / "documents.ndjson"
    ids = prepare(found, path, QUICK_DOCS if args.quick else None)
    if not ids:
        die("there are no documents")
    pairs = labelled(args.pairs) if args.pairs else {}
    measured = peers(set(args.peer), args.binary)
    clusters, scores, counted = {}, {}, []
    for peer in measured:
        say(f"{peer.name}: a first pass, which is not timed")
        roots = peer.roots(path, work)
        if len(roots) != len(ids):
            die(f"{peer.name} answers {len(roots)} lines for {len(ids)} documents")
        if peer.library == "shingles":
            counted.append(roots)
            clusters[peer.name], scores[peer.name] = None, {}
        else:
            clusters[peer.name], scores[peer.name] = len(set(roots)), score(ids, roots, pairs)
    if counted and counted[0] != counted[-1]:
        die("the peers do not make the same shingles")
    if pairs and not scores[measured[0].name] and not args.quick:
        die(f"no pair of {args.pairs} is among the documents")
    for number in range(args.rounds):
        for turn in range(len(measured)):
            peer = measured[(number + turn) % len(measured)]
            peer.measure(path)
            say(f"round {number + 1} of {args.rounds}: {peer.name} {peer.seconds[-1]:.2f} s")
    for peer in measured:
        found = clusters[peer.name], scores[peer.name]
        for line in lines(peer, measured[0], len(ids), path.stat().st_size, *found):
            tell(**line)


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="scripts/bench peers")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data", type=Path, metavar="DIR", help="a checkout of the Press Release Archive")
    source.add_argument("--input", type=Path, metavar="FILE", help="NDJSON with id, title and content, also as .xz")
    parser.add_argument("--pairs", type=Path, metavar="FILE", help="two ids and a label a line, with tabs, also as .xz")
    parser.add_argument("--peer", action="append", choices=LIBRARIES, help="instead of all")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--binary", help="a spinney that is built already")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(arguments)
    if not args.data and not args.input:
        if not args.quick:
            parser.error("say what to read: --data DIR or --input FILE")
        args.input, args.pairs = SAMPLE, args.pairs or SAMPLE.with_suffix(".tsv")
    for path in (args.data, args.input, args.pairs):
        if path and not os.access(path, os.R_OK):
            parser.error(f"cannot read {path}")
    args.rounds = (1 if args.quick else 3) if args.rounds is None else args.rounds
    if args.rounds < 1:
        parser.error("--rounds must be a number from 1 on")
    args.peer = args.peer or LIBRARIES
    return args


def main():
    args = parse()
    if not {CPU, OTHER_CPU} <= os.sched_getaffinity(0):
        die("this needs CPU 0 and CPU 1")
    os.sched_setaffinity(0, {OTHER_CPU})
    with tempfile.TemporaryDirectory(prefix="spinney-peers-") as work:
        measure(args, Path(work))


if __name__ == "__main__":
    main()
