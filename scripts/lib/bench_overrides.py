"""scripts/bench overrides: how soon stored documents and counts are as somebody has said, while others write.

Needs Linux, Python 3 without anything else, and what scripts/search-server needs.
"""

import random
import tempfile
import threading
import time
from pathlib import Path

import common
from common import INDEX, Client, Load, Texts, ask, bulk, die, quantile, say, search_server, send_bulk, tell

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
        client = Client(self.address)
        begun, sent = time.monotonic(), 0
        while not self.over.wait(max(0, begun + sent * self.pause - time.monotonic())):
            failed = send_bulk(client, bulk((None, texts.next(0)) for _ in range(WRITE_BULK)))
            if failed:
                self.failed.append(failed)
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
    """Overrides groups that nobody else writes to, each group once, and looks how long it takes until they are true."""

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
        took = []
        for holds in (
            lambda: all(self.stored(root) == count for root, count in wanted.items()),
            lambda: all(self.entry(root) == max(count, 1) for root, count in wanted.items()),
        ):
            common.until(holds, f"a {kind} is followed", PATIENCE, 0.05)
            took.append(time.monotonic() - begun)
        return took


def measure(url, spinney, work, args, docs):
    process, address = common.serve(spinney, [*common.route(url, INDEX), "--log", "warn"], work)
    has_counted = lambda: common.has_counted(common.counts(f"http://{address}"))
    try:
        say(f"loading {docs} documents")
        Load([address], Texts().bulks(docs)).run()
        ask(url, "POST", f"/{INDEX}/_refresh")
        while not has_counted():
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
        while not has_counted():
            time.sleep(0.25)
    finally:
        common.end(process)
    common.counts_are_true(spinney, url)
    for kind, told in found.items():
        stored, counted = zip(*told)
        tell(
            bench="overrides", override=kind, docs=docs, n=len(told), written_docs_per_s=round(written / seconds),
            stored_p50_s=round(quantile(stored, 0.5), 2), stored_most_s=round(quantile(stored, 1), 2),
            counted_p50_s=round(quantile(counted, 0.5), 2), counted_most_s=round(quantile(counted, 1), 2),
        )


def main():
    parser, parse = common.arguments("overrides", docs=(100_000, 5_000))
    parser.add_argument("--overrides", type=int, help="of each kind")
    parser.add_argument("--rate", type=int, default=500, help="documents a second of all writers")
    args = parse()
    args.overrides = args.overrides or (3 if args.quick else 20)
    spinney = args.binary or common.build()
    with search_server(INSTANCE, "--heap", "1g") as told:
        common.create_index(told["url"], INDEX, common.NEWS | common.STAMP, refresh_interval="1s")
        with tempfile.TemporaryDirectory(prefix="spinney-overrides-") as work:
            measure(told["url"], spinney, Path(work), args, args.docs)


if __name__ == "__main__":
    main()
