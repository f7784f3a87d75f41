"""scripts/bench stamp-fields: what the fields of a stamp cost the search server, and what each way to map them allows.

Needs Linux, two cores, Python 3 without anything else, and what scripts/search-server needs.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time

from common import BULK, REPRINTS, ROOT, Client, Load, cpu, die, say, search_server, tell

INSTANCE = "bench-fields"

KEYWORD, LONG, DATE, BOOLEAN = {"type": "keyword"}, {"type": "long"}, {"type": "date"}, {"type": "boolean"}
NO_INDEX, NO_VALUES = {"index": False}, {"doc_values": False}
SOURCE_ONLY = {**NO_INDEX, **NO_VALUES}


def alias(path):
    return {"type": "alias", "path": path}


# Whole stamps: which fields are written, and how each name is mapped.
STAMPS = {
    "none": {},
    "full, all mapped": {
        "root": KEYWORD, "key": LONG, "arrival": DATE,
        "hash": {**KEYWORD, **SOURCE_ONLY}, "proof": {**KEYWORD, **SOURCE_ONLY},
    },
    "lean, all mapped": {"root": KEYWORD, "key": LONG, "arrival": DATE},
    "lean, and first": {"root": KEYWORD, "key": LONG, "arrival": DATE, "first": BOOLEAN},
    "lean, date not indexed": {"root": KEYWORD, "key": LONG, "arrival": {**DATE, **NO_INDEX}},
    "lean, key not indexed": {"root": KEYWORD, "key": {**LONG, **NO_INDEX}, "arrival": DATE},
    "lean, root without values": {"root": {**KEYWORD, **NO_VALUES}, "key": LONG, "arrival": DATE},
    "lean, root without values, key not indexed": {
        "root": {**KEYWORD, **NO_VALUES}, "key": {**LONG, **NO_INDEX}, "arrival": DATE,
    },
    "lean, root not indexed, key without values": {
        "root": {**KEYWORD, **NO_INDEX}, "key": {**LONG, **NO_VALUES}, "arrival": DATE,
    },
    "root, and key its alias": {"root": KEYWORD, "key": alias("cluster_root"), "arrival": DATE},
    "key, and root its alias": {"key": LONG, "root": alias("cluster_key"), "arrival": DATE},
    "key alone": {"key": LONG},
}

# Each field by itself, in documents that hold nothing else: what its source, its index and its doc values take.
FIELDS = {
    "none": {},
    **{
        f"{name}: {what}": {name: {**mapping, **options}}
        for name, mapping in (("root", KEYWORD), ("key", LONG), ("arrival", DATE), ("first", BOOLEAN))
        for what, options in (
            ("source", SOURCE_ONLY),
            ("source, index", NO_VALUES),
            ("source, doc values", NO_INDEX),
            ("source, index, doc values", {}),
        )
    },
    "hash: source": {"hash": {**KEYWORD, **SOURCE_ONLY}},
    "proof: source": {"proof": {**KEYWORD, **SOURCE_ONLY}},
}

# Lucene's files by what they hold; postings of the text are in there too, and are the same in every variant.
PARTS = {
    "doc_values": {"dvd", "dvm"},
    "index": {"tim", "tip", "tmd", "doc", "pos", "pay", "psm"},
    "points": {"kdd", "kdi", "kdm"},
    "source": {"fdt", "fdx", "fdm"},
}


class Server:
    """A real node that has CPU 0 for itself."""

    def __init__(self, told):
        self.client, self.pid = Client(told["url"], 600), told["pid"]
        self.name = f"{told['kind']} {told['version']}"

    def ask(self, method, path, body=None):
        """Status and answer."""
        status, answer = self.client.send(method, path, body)
        return status, json.loads(answer)

    def must(self, method, path, body=None):
        return self.client.ask(method, path, body)

    def load(self, bodies):
        Load([self.client.address], bodies, "fields").run()


class Documents:
    """The same of the same seed: texts of about 2 KB, Chinese or English, if wanted, and stamps."""

    def __init__(self, count, with_texts, seed=7):
        self.with_texts = with_texts
        dice, texts = random.Random(seed), random.Random(seed)
        pool = {}
        for language, glue, end in (("zh", "", "。"), ("en", " ", ". ")):
            words = [
                line.split() for line in (ROOT / f"benches/support/words.{language}.txt").read_text("utf8").splitlines()
            ]
            words = [word for line in words for word in line]
            pool[language] = [glue.join(texts.choices(words, k=12)) + end for _ in range(4000)]
        self.texts, self.roots, self.stamps = [], [], []
        for n in range(count):
            if with_texts:
                self.texts.append("".join(texts.choices(pool["zh" if n % 2 else "en"], k=28)))
            is_copy = n and dice.randrange(100) < REPRINTS
            if is_copy:
                root = self.roots[dice.randrange(n)]
            else:
                # The smallest of a hundred hashes: that is what the method `verified` founds trees on.
                root = int((1 - (1 - dice.random()) ** 0.01) * 2**63) << 1 | dice.getrandbits(1)
            self.roots.append(root)
            hashes = [root] + sorted(dice.getrandbits(60) for _ in range(4))
            seconds = n // BULK
            self.stamps.append({
                "root": f'"{root:016x}"',
                "key": str(signed(root)),
                "hash": json.dumps([f"{h:016x}" for h in hashes], separators=(",", ":")),
                "arrival": f'"2026-01-02T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.678Z"',
                "first": "false" if is_copy else "true",
                "proof": f'"{dice.getrandbits(29 * 8):058x}"',
            })

    def bulks(self, variant):
        # In the order in which spinney writes them. An alias cannot be written.
        members = ("root", "key", "hash", "arrival", "proof", "first")
        written = [m for m in members if variant.get(m, alias(""))["type"] != "alias"]
        lines, bodies = [], []
        for n, stamp in enumerate(self.stamps):
            members = [f'"cluster_{member}":{stamp[member]}' for member in written]
            if self.with_texts:
                members.append(f'"content":{json.dumps(self.texts[n], ensure_ascii=False)}')
            lines.append(f'{{"index":{{"_id":"{n}"}}}}\n{{{",".join(members)}}}\n')
            if len(lines) == BULK or n + 1 == len(self.stamps):
                bodies.append("".join(lines).encode())
                lines = []
        return bodies


def signed(root):
    return root - 2**64 if root >= 2**63 else root


def create(server, variant):
    server.ask("DELETE", "/fields")
    properties = {"content": {"type": "text"}}
    properties.update({f"cluster_{member}": mapping for member, mapping in variant.items()})
    settings = {
        "number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1",
        # Files by extension tell what is in them.
        "compound_format": False,
    }
    server.must("PUT", "/fields", {
        "settings": {"index": settings}, "mappings": {"dynamic": "strict", "properties": properties},
    })


def measure(server, variant, bodies, docs):
    """One load into a fresh index, until everything is in segments: what waits in memory is a cost, too."""
    create(server, variant)
    spent, clock = cpu(server.pid), time.perf_counter()
    server.load(bodies)
    server.must("POST", "/fields/_flush?wait_if_ongoing=true")
    seconds = time.perf_counter() - clock
    return {"docs_per_s": docs / seconds, "cpu_us_per_doc": (cpu(server.pid) - spent) * 1e6 / docs}


def sizes(server, bodies, docs):
    """Bytes a document by part, in one segment."""
    # Only what was merged has a file for each part, so there must be two segments to merge.
    source = bodies[-1].decode().splitlines()[-1]
    server.must("PUT", f"/fields/_doc/{docs}", json.loads(source))
    server.must("POST", "/fields/_flush?wait_if_ongoing=true")
    server.must("POST", "/fields/_forcemerge?max_num_segments=1&flush=true")
    server.must("POST", "/fields/_refresh")
    stats = server.must("GET", "/fields/_stats/segments,docs?include_segment_file_sizes=true")
    segments = stats["_all"]["primaries"]["segments"]
    if segments["count"] != 1 or stats["_all"]["primaries"]["docs"]["count"] != docs + 1:
        die(f"not one segment of {docs} documents: {stats['_all']['primaries']}")
    by_part = dict.fromkeys(PARTS, 0)
    for extension, file in segments["file_sizes"].items():
        for part, extensions in PARTS.items():
            if extension in extensions:
                by_part[part] += file.get("size_in_bytes", file.get("size", 0)) / docs
    return by_part


def disk_usage(server, docs):
    """Bytes a document of each of the stamp's fields, by the server's own account; Elasticsearch has one."""
    status, answer = server.ask("POST", "/fields/_disk_usage?run_expensive_tasks=true")
    if status != 200:
        return None
    fields = answer["fields"]["fields"]
    parts = {"inverted_index": "index", "doc_values_in_bytes": "doc_values", "points_in_bytes": "points"}
    found = {}
    for name, usage in fields.items():
        if name.startswith("cluster_"):
            sizes_of = {"index": usage["inverted_index"]["total_in_bytes"]}
            sizes_of |= {parts[key]: usage[key] for key in parts if key in usage and key != "inverted_index"}
            found[name] = {part: round(size / docs, 1) for part, size in sizes_of.items()}
    return found


def checks(server, documents):
    """What the mapping allows: what works and how long it takes, and what is refused or wrong."""
    docs = len(documents.roots)
    counts = {}
    for root in documents.roots:
        counts[root] = counts.get(root, 0) + 1
    largest = max(counts, key=counts.get)

    def near(found):
        return abs(found - len(counts)) <= 0.03 * len(counts) + 1

    def search(**body):
        return {"size": 0, "track_total_hits": True, **body}

    def distinct(answer):
        roots = [documents.roots[int(hit["_id"])] for hit in answer["hits"]["hits"]]
        return len(roots) == min(20, len(counts)) == len(set(roots))

    def counted(answer):
        return distinct(answer) and all(
            hit["inner_hits"]["similar"]["hits"]["total"]["value"] == counts[documents.roots[int(hit["_id"])]]
            for hit in answer["hits"]["hits"]
        )

    def total(expected):
        return lambda answer: answer["hits"]["total"]["value"] == expected

    def ordered(by):
        def check(answer):
            found = [by(int(hit["_id"])) for hit in answer["hits"]["hits"]]
            return len(found) == 20 and found == sorted(map(by, range(docs)))[:20]
        return check

    wanted = []
    for name, value, by in (
        ("root", f"{largest:016x}", lambda n: documents.roots[n]),
        ("key", signed(largest), lambda n: signed(documents.roots[n])),
    ):
        field = f"cluster_{name}"
        most = lambda answer: [b["doc_count"] for b in answer["aggregations"]["a"]["buckets"]][:1] == [counts[largest]]
        wanted += [
            (f"collapse by {name}", search(size=20, collapse={"field": field}), distinct),
            (f"collapse by {name} with inner_hits",
             search(size=20, collapse={"field": field, "inner_hits": {"name": "similar", "size": 0}}), counted),
            (f"look-up by {name}", search(query={"term": {field: value}}), total(counts[largest])),
            (f"cardinality of {name}",
             search(aggs={"a": {"cardinality": {"field": field, "precision_threshold": 40000}}}),
             lambda answer: near(answer["aggregations"]["a"]["value"])),
            (f"terms of {name}", search(aggs={"a": {"terms": {"field": field, "size": 20}}}), most),
            (f"sort by {name}", search(size=20, sort=[field]), ordered(by)),
            (f"exists {name}", search(query={"exists": {"field": field}}), total(docs)),
        ]
    first = sum(stamp["arrival"] == documents.stamps[0]["arrival"] for stamp in documents.stamps)
    at = json.loads(documents.stamps[0]["arrival"])
    wanted += [
        ("sort by arrival", search(size=20, sort=["cluster_arrival"]), lambda answer: (
            len(answer["hits"]["hits"]) == 20 and all(int(hit["_id"]) < BULK for hit in answer["hits"]["hits"]))),
        ("range of arrival", search(query={"range": {"cluster_arrival": {"lte": at}}}), total(first)),
    ]
    works, fails = {}, {}
    for name, body, right in wanted:
        times = []
        for _ in range(5):
            clock = time.perf_counter()
            status, answer = server.ask("POST", "/fields/_search?request_cache=false", body)
            times.append((time.perf_counter() - clock) * 1000)
            if status != 200:
                cause = answer["error"]
                cause = (cause.get("root_cause") or [cause])[0]
                fails[name] = f"{status} {cause.get('reason', '')[:160]}"
                break
            if answer["_shards"]["failed"]:
                fails[name] = json.dumps(answer["_shards"]["failures"])[:160]
                break
            if not right(answer):
                fails[name] = "200, but a wrong answer"
                break
        else:
            works[name] = round(statistics.median(times), 2)
    return works, fails


def run(server, part, variants, documents, rounds):
    docs = len(documents.stamps)
    results = {name: [] for name in variants}
    found, order = {}, list(variants)
    for number in range(rounds + 1):
        # The first one is not counted: it warms the server up. The order turns from round to round.
        for name in order:
            bodies = documents.bulks(variants[name])
            result = measure(server, variants[name], bodies, docs)
            rate, time = result["docs_per_s"], result["cpu_us_per_doc"]
            say(f"{part} {number}/{rounds} {name}: {rate:.0f} docs/s, {time:.0f} us")
            if number:
                results[name].append(result)
            if number == rounds:
                server.must("POST", "/fields/_refresh")
                found[name] = {} if part == "field" or name == "none" else {"checks": checks(server, documents)}
                found[name] |= {"bytes": sizes(server, bodies, docs), "usage": disk_usage(server, docs)}
        order = order[1:] + order[:1] if number % 2 else order[::-1]
    base = results["none"]
    for name in variants:
        ratios = [own["docs_per_s"] / none["docs_per_s"] for own, none in zip(results[name], base)]
        # Other work on the machine takes caches and turns away, and so only ever adds: the least is nearest to the
        # truth.
        own, least = (min(r["cpu_us_per_doc"] for r in of) for of in (results[name], base))
        line = {
            "bench": "stamp-fields", "server": server.name, "part": part, "variant": name, "docs": docs,
            "rounds": rounds,
            "docs_per_s": round(statistics.median(r["docs_per_s"] for r in results[name])),
            "ratio": round(statistics.median(ratios), 3),
            "cpu_us_per_doc": round(own, 1),
            "cpu_us_more": round(own - least, 1),
            "cpu_ratio": round(own / least, 3),
            "bytes_more": {
                what: round(size - found["none"]["bytes"][what], 1) for what, size in found[name]["bytes"].items()
            },
        }
        line["bytes_more"]["all"] = round(sum(line["bytes_more"].values()), 1)
        if found[name]["usage"]:
            line["disk_usage"] = found[name]["usage"]
        if "checks" in found[name]:
            line["works_ms"], line["fails"] = found[name]["checks"]
        tell(**line)


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench stamp-fields")
    parser.add_argument("--server", choices=["opensearch", "elasticsearch"], default="opensearch")
    parser.add_argument("--docs", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--part", choices=["mapping", "field"])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    given.docs = given.docs or (1000 if given.quick else 20_000)
    given.rounds = given.rounds or (1 if given.quick else 9)
    if given.docs < 1 or given.rounds < 1:
        parser.error("--docs and --rounds must be 1 or more")
    return given


def main():
    given = arguments()
    os.sched_setaffinity(0, {1})
    # The search server must not inherit the affinity of this process: it is given CPU 0 by name.
    with search_server(INSTANCE, "--cpu", "0", "--heap", "1g", kind=given.server) as told:
        server = Server(told)
        for part, variants in (("mapping", STAMPS), ("field", FIELDS)):
            if given.part in (None, part):
                # Without a text a document takes a tenth of the time.
                count = given.docs if part == "mapping" else 10 * given.docs
                run(server, part, variants, Documents(count, part == "mapping"), given.rounds)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
