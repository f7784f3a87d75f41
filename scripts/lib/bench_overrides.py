"""scripts/bench overrides: how soon stored documents and counts are as somebody has said, while others write.

Needs Linux, Python 3 without anything else, and what scripts/search-server needs.
"""

import argparse
import http.client
import json
import random
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench_common import BULK, INDEX, Texts, ask, build, die, load, quantile, say, search_server, serve

INSTANCE = "bench-overrides"
WRITERS, WRITE_BULK = 8, 50
# A word is given up after so long, in seconds.
PATIENCE = 120


class Writers:
    """Write stories of their own, together at a steady rate, until they are stopped."""

    def __init__(self, address, rate):
        self.address, self.pause = address, WRITERS * WRITE_BULK / rate
        self.over, self.written, self.failed = threading.Event(), [0] * WRITERS, []
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        texts = Texts(seed=100 + number)
        connection = http.client.HTTPConnection(self.address, timeout=600)
        begun, sent = time.monotonic(), 0
        while not self.over.wait(max(0, begun + sent * self.pause - time.monotonic())):
            lines = []
            for _ in range(WRITE_BULK):
                lines += ['{"index":{}}', json.dumps(texts.next(0))]
            body = "\n".join(lines) + "\n"
            connection.request("POST", f"/{INDEX}/_bulk", body, {"Content-Type": "application/x-ndjson"})
            answer = connection.getresponse().read()
            if b'"errors":false' not in answer[:200]:
                self.failed.append(answer[:2000])
                break
            sent += 1
            self.written[number] += WRITE_BULK

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        if self.failed:
            die(f"a bulk failed: {self.failed[0]!r}")
        return sum(self.written)


class Talker:
    """Says words about groups that nobody else writes to, each group once, and looks how long it takes until they are true."""

    def __init__(self, url, spinney):
        self.url, self.spinney, self.random = url, spinney, random.Random(5)
        body = {"size": 0, "aggs": {"groups": {"terms": {"field": "cluster_root", "size": 3_000, "min_doc_count": 3}}}}
        buckets = ask(url, "POST", f"/{INDEX}/_search", body)["aggregations"]["groups"]["buckets"]
        self.groups = [(bucket["key"], bucket["doc_count"]) for bucket in buckets]
        self.random.shuffle(self.groups)

    def entry(self, root):
        """What the index of roots says of a group; a group of one has no entry."""
        body = {"query": {"term": {"cluster_root": root}}, "_source": ["n"]}
        hits = ask(self.url, "POST", f"/spinney-roots-{INDEX}/_search", body)["hits"]["hits"]
        return hits[0]["_source"]["n"] if hits else 1

    def stored(self, root):
        return ask(self.url, "POST", f"/{INDEX}/_count", {"query": {"term": {"cluster_root": root}}})["count"]

    def member(self, root):
        body = {"size": 1, "_source": False, "query": {"term": {"cluster_root": root}}}
        return ask(self.url, "POST", f"/{INDEX}/_search", body)["hits"]["hits"][0]["_id"]

    def say_one(self, kind):
        """Seconds until documents follow, and until the order of groups does."""
        (one, n), (other, m) = self.groups.pop(), self.groups.pop()
        if kind == "merge":
            path, body, wanted = "_merge", {"roots": [one, other]}, {one: n + m, other: 0}
        elif kind == "split":
            path, body, wanted = "_split", {"ids": [self.member(one)]}, {one: n - 1}
        else:
            path, body, wanted = "_pin", {"ids": [self.member(one)], "root": other}, {one: n - 1, other: m + 1}
        begun = time.monotonic()
        ask(self.spinney, "POST", f"/_spinney/{INDEX}/{path}", body)
        return [
            self.until(begun, lambda: all(self.stored(root) == count for root, count in wanted.items()), kind),
            self.until(begun, lambda: all(self.entry(root) == max(count, 1) for root, count in wanted.items()), kind),
        ]

    def until(self, begun, is_true, kind):
        while not is_true():
            if time.monotonic() > begun + PATIENCE:
                die(f"a {kind} is not followed after {PATIENCE} seconds")
            time.sleep(0.05)
        return time.monotonic() - begun


def measure(url, spinney, work, args, docs):
    options = ["--upstream", url, "--index", INDEX, "--text-field", "content", "--title-field", "title", "--log", "warn"]
    process, address = serve(spinney, options, work)
    try:
        say(f"loading {docs} documents")
        load(address, Texts().bulks(docs))
        ask(url, "POST", f"/{INDEX}/_refresh")
        counts = lambda: ask(f"http://{address}", "GET", "/_spinney/_stats")["counts"]
        while (figures := counts())["lag_s"] > 0 or figures["reconciling"] > 0 or not figures["reconciled"]:
            time.sleep(0.25)
        talker = Talker(url, f"http://{address}")
        writers = Writers(address, args.rate)
        begun, found = time.monotonic(), {"merge": [], "split": [], "pin": []}
        try:
            for number in range(args.overrides):
                for kind, told in found.items():
                    told.append(talker.say_one(kind))
                say(f"{3 * (number + 1)} of {3 * args.overrides} words")
        finally:
            written = writers.stop()
        seconds = time.monotonic() - begun
        while (figures := counts())["lag_s"] > 0 or figures["reconciling"] > 0:
            time.sleep(0.25)
    finally:
        process.terminate()
        process.wait()
    ask(url, "POST", f"/{INDEX},spinney-roots-{INDEX}/_refresh")
    told = subprocess.run([spinney, "reconcile", "--upstream", url, "--index", INDEX, "--dry-run"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    if "0 missing, 0 wrong, 0 superfluous" not in told:
        die(f"the order is not true: {told}")
    for kind, told in found.items():
        stored, counted = zip(*told)
        print(json.dumps({
            "bench": "overrides", "override": kind, "docs": docs, "n": len(told), "written_docs_per_s": round(written / seconds),
            "stored_p50_s": round(quantile(stored, 0.5), 2), "stored_most_s": round(quantile(stored, 1), 2),
            "counted_p50_s": round(quantile(counted, 0.5), 2), "counted_most_s": round(quantile(counted, 1), 2),
        }), flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench overrides")
    parser.add_argument("--docs", type=int)
    parser.add_argument("--overrides", type=int, help="of each kind")
    parser.add_argument("--rate", type=int, default=500, help="documents a second of all writers")
    parser.add_argument("--binary", help="a spinney that is built already")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    docs = args.docs or (5_000 if args.quick else 100_000)
    args.overrides = args.overrides or (3 if args.quick else 20)
    if docs % BULK:
        parser.error(f"--docs must be a multiple of {BULK}")
    spinney = args.binary or build()
    with search_server(INSTANCE, "--heap", "1g") as told:
        url = told["url"]
        ask(url, "PUT", f"/{INDEX}", {
            "settings": {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "1s"},
            "mappings": {"properties": {
                "title": {"type": "text"}, "content": {"type": "text"}, "media": {"type": "keyword"},
                "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"}, "cluster_arrival": {"type": "date"},
            }},
        })
        with tempfile.TemporaryDirectory(prefix="spinney-overrides-") as work:
            measure(url, spinney, Path(work), args, docs)


if __name__ == "__main__":
    main()
