"""scripts/bench read: what readers wait for. Needs Linux, two cores, Python 3, and what scripts/search-server needs."""

import contextlib
import functools
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

import common
from common import INDEX, SEARCH_SERVER, Client, bulk, die, quantile, say, search_server, send_bulk, tell

INSTANCE = "bench-read"
ROOTS = f"spinney-roots-{INDEX}"
# Each of 200 topics is in 66 of 1,000 documents.
TOPICS, OF_A_DOCUMENT = 200, 13.2
DAY = 86_400_000


def make_documents(count, seed=12):
    """Sizes of groups are a power law: 85 of 100 groups have one document, together 65 of 100 documents."""
    rng, words_of = random.Random(seed), random.Random(seed + 1)
    words = [f"w{number}" for number in range(20_000)]
    produced = 0
    while produced < count:
        size = 1 if rng.random() < 0.85 else min(int(2 / rng.random() ** 0.6), 2000)
        key = rng.getrandbits(64) - (1 << 63)
        text = " ".join(rng.choice(words) for _ in range(60))
        topics = [f"t{t}" for t in range(TOPICS) if rng.random() < OF_A_DOCUMENT / TOPICS]
        # Words of 1%, 10% and 60% of all documents; a reprint has those of its original.
        shares = [f"1-{words_of.randrange(100)}", f"10-{words_of.randrange(10)}"]
        shares += [f"60-{number}" for number in range(10) if words_of.random() < 0.6]
        for _ in range(min(size, count - produced)):
            produced += 1
            yield {
                "cluster_key": key,
                "cluster_root": f"{key & (1 << 64) - 1:016x}",
                "cluster_arrival": produced * 1000,
                "published_at": rng.randrange(365 * DAY),
                "medium": f"m{rng.randrange(300)}",
                "topics": topics,
                "shares": shares,
                "content": text,
            }


def fill(server, count, shards):
    keyword = {"type": "keyword"}
    fields = common.STAMP | {
        "published_at": {"type": "date"}, "medium": keyword, "topics": keyword, "shares": keyword,
        "content": {"type": "text"},
    }
    settings = {"number_of_shards": shards, "refresh_interval": -1, "requests.cache.enable": False}
    common.create_index(server.address, INDEX, fields, **settings)
    groups, waiting = {}, []

    def send():
        failed = waiting and send_bulk(server, bulk(waiting))
        if failed:
            die(f"a bulk failed: {failed!r}")
        waiting.clear()

    for number, document in enumerate(make_documents(count)):
        waiting.append((number, document))
        groups[document["cluster_key"]] = groups.get(document["cluster_key"], 0) + 1
        if len(waiting) == 2000:
            send()
            if (number + 1) % 100_000 == 0:
                say(f"{number + 1} documents")
    send()
    server.ask("POST", f"/{INDEX}/_refresh")
    while server.ask("GET", f"/{INDEX}/_stats/merge")["_all"]["primaries"]["merges"]["current"]:
        time.sleep(1)
    filled = {"docs": count, "shards": shards, "groups": len(groups), "repeated": sum(n >= 2 for n in groups.values())}
    # Written last: an index that has it is whole.
    server.ask("PUT", f"/{INDEX}/_mapping", {"_meta": filled})
    return filled


def kept_index(server, count, shards):
    """What an earlier run with --keep has filled, if it is the same."""
    if INDEX not in server.ask("GET", "/_aliases"):
        return None
    filled = server.ask("GET", f"/{INDEX}/_mapping")[INDEX]["mappings"].get("_meta", {})
    if (filled.get("docs"), filled.get("shards")) == (count, shards):
        return filled
    server.ask("DELETE", f"/{INDEX}")
    return None


@contextlib.contextmanager
def kept_server(*options):
    """The server of an earlier run with --keep, or a new one; it goes on."""
    status = subprocess.run([SEARCH_SERVER, "status", INSTANCE], stdout=subprocess.PIPE, text=True)
    if status.returncode:
        start = [SEARCH_SERVER, "start", "opensearch", "--instance", INSTANCE, *options]
        status = subprocess.run(start, stdout=subprocess.PIPE, text=True, check=True)
    yield common.lines(status.stdout)
    say(f"the server goes on, for the next run with --keep; to stop it: scripts/search-server stop {INSTANCE}")


class Bench:
    def __init__(self, server, filled, requests):
        self.reader, self.server, self.requests = None, server, requests
        self.docs, self.shards = filled["docs"], filled["shards"]
        self.groups, self.repeated = filled["groups"], filled["repeated"]

    def reconcile(self, binary, url, times):
        """spinney reconcile of the whole index: into nothing, and where everything is true already."""
        command = [binary, "reconcile", "--upstream", url, "--index", INDEX]
        cases = [("into no entries", [], f"{self.repeated} missing, 0 wrong, 0 superfluous")]
        cases += [("nothing to mend", [], "0 missing, 0 wrong, 0 superfluous")] * times
        cases += [("--dry-run", ["--dry-run"], "0 missing, 0 wrong, 0 superfluous")] * times
        took = {}
        for case, options, expected in cases:
            began = time.perf_counter()
            told = subprocess.run(command + options, stdout=subprocess.PIPE, text=True, check=True).stdout
            took.setdefault(case, []).append(time.perf_counter() - began)
            if expected not in told:
                die(f"spinney reconcile: {told}")
            self.server.ask("POST", f"/{ROOTS}/_refresh")
        for case, times in took.items():
            self.report(f"spinney reconcile, {case}", times)

    def is_compared(self):
        """Whether spinney is through with what every start begins with; it goes on in passing."""
        return common.has_counted(common.counts(self.reader.address))

    def report(self, case, times):
        at = lambda share: round(quantile(times, share) * 1000, 1)
        tell(bench="read", case=case, docs=self.docs, shards=self.shards, n=len(times), p50_ms=at(0.5), p95_ms=at(0.95))

    def timed(self, client, method, path, body=None):
        began = time.perf_counter()
        answer = client.ask(method, path, body)
        return time.perf_counter() - began, answer

    def groups_page(self, question):
        return self.timed(self.reader, "POST", f"/_spinney/{INDEX}/_groups", {"_source": ["medium"], **question})

    def pages(self, question, count):
        """So many pages by cursor: the times, and the last page."""
        times = []
        for _ in range(count):
            took, page = self.groups_page(question)
            times.append(took)
            if page["next"] is None:
                break
            question = {**question, "cursor": page["next"]}
        return times, question

    def warm_up(self):
        """Requests that are not counted: a server that has just been started takes several times as long."""
        for number in range(self.requests):
            query = {"term": {"topics": f"t{number % TOPICS}"}}
            for question in ({"sort": "similar_count"}, {"sort": {"similar_count": "asc"}},
                             {"sort": "matching_count", "query": query, "total": False}):
                self.pages(question, 2)
            for share in (1, 10, 60):
                query = {"term": {"shares": f"{share}-{number % 10}"}}
                self.pages({"sort": "similar_count", "query": query, "total": False}, 2)

    def whole_index(self):
        for order in ("desc", "asc"):
            question = {"sort": {"similar_count": order}}
            first = []
            for _ in range(self.requests):
                took, page = self.groups_page(question)
                first.append(took)
            if page["total"] != {"value": self.groups, "relation": "eq"}:
                die(f"{page['total']} instead of {self.groups} groups")
            self.report(f"whole index {order}, page 1 with the number of groups", first)
            times, question = self.pages(question, 250)
            self.report(f"whole index {order}, pages 1-250 by cursor", times)
            # A cursor is good for pages of any size: on with large ones.
            _, question = self.pages({**question, "size": 100}, 150)
            times, question = self.pages({**question, "size": 20}, self.requests)
            self.report(f"whole index {order}, pages from 1,000 on", times)
            if order == "desc":
                _, question = self.pages({**question, "size": 100}, self.repeated // 100 - 100)
                times, _ = self.pages({**question, "size": 20}, self.requests)
                self.report("whole index desc, pages in the singletons", times)

    def under_queries(self):
        topics = [f"t{number % TOPICS}" for number in range(self.requests)]
        for name, sort in (("matching count desc", {"matching_count": "desc"}),
                           ("matching count asc", {"matching_count": "asc"}),
                           ("newest first", {"published_at": "desc"})):
            for total in (False, True):
                times, following, fourth, deep = [], [], [], []
                for topic in topics:
                    question = {"query": {"term": {"topics": topic}}, "sort": sort, "total": total}
                    first, question = self.pages(question, 1)
                    times += first
                    if not total:
                        took, question = self.pages(question, 2)
                        following += took
                        # Descending, one of these makes the list that the others come from; ascending, one behind
                        # the walk does.
                        took, question = self.pages(question, 2)
                        fourth += took
                        if len(deep) < self.requests:
                            deep += self.pages(question, 10)[0]
                self.report(f"query, {name}, page 1" + (" with the number of groups" if total else ""), times)
                if not total:
                    self.report(f"query, {name}, pages 2-3", following)
                    self.report(f"query, {name}, pages 4-5", fourth)
                    self.report(f"query, {name}, pages 6-15", deep)

    def by_similar_count(self):
        """Queries of 1%, 10% and 60% of all documents, by the size of their groups in the whole index."""
        sizes = lambda page: [group["similar_count"] for group in page["groups"]]
        for share, words in ((1, 100), (10, 10), (60, 10)):
            for order in ("desc", "asc"):
                name = f"query of {share}%, similar count {order}"
                first, with_total, early, deep = [], [], [], []
                for number in range(self.requests):
                    query = {"term": {"shares": f"{share}-{number % words}"}}
                    question = {"query": query, "sort": {"similar_count": order}, "total": False}
                    took, page = self.groups_page(question)
                    first.append(took)
                    if number == 0 and sizes(page) != sizes(self.groups_page({**question, "exact": True})[1]):
                        die(f"{name}: other groups than those of the documents")
                    if number % 4 == 0:
                        with_total.append(self.groups_page({**question, "total": True})[0])
                    if number % 20 == 0:
                        # On with large pages: of 1%, later ones are behind the groups of two or more.
                        for times in (early, deep):
                            _, question = self.pages({**question, "size": 100}, 5 if times is early else 15)
                            took, question = self.pages({**question, "size": 20}, 20)
                            times += took
                self.report(f"{name}, page 1", first)
                self.report(f"{name}, page 1 with the number of groups", with_total)
                self.report(f"{name}, pages from 25 on", early)
                self.report(f"{name}, pages from 120 on", deep)

    def facets(self):
        facets = {"media": {"terms": {"field": "medium"}},
                  "months": {"date_histogram": {"field": "published_at", "calendar_interval": "month"}}}
        for share, words in ((1, 100), (10, 10), (60, 10)):
            times = []
            for number in range(self.requests // 4):
                question = {"query": {"term": {"shares": f"{share}-{number % words}"}}, "total": False,
                            "sort": {"published_at": "desc"}, "facets": facets}
                took, page = self.groups_page(question)
                times.append(took)
            relations = {facet["relation"] for facet in page["facets"].values()}
            self.report(f"query of {share}%, newest first, with two facets ({'/'.join(sorted(relations))})", times)

    def plain(self):
        for field in ("cluster_root", "cluster_key"):
            inner = {"collapse": {"field": field, "inner_hits": {"name": "of", "size": 0}}}
            terms = {"field": field, "size": 65_000, "shard_size": 1_000_000}
            buckets = {"size": 0, "aggs": {"groups": {"terms": terms}}}
            for name, body in (("collapse + inner_hits", {"size": 20, **inner}), ("terms of all buckets", buckets)):
                times = []
                for number in range(self.requests):
                    asked = {"query": {"term": {"topics": f"t{number % TOPICS}"}}, "_source": ["medium"], **body}
                    times.append(self.timed(self.server, "POST", f"/{INDEX}/_search", asked)[0])
                self.report(f"plain server, query, {name} on {field}", times)

    def similar(self):
        rng = random.Random(1)
        paths = [f"/_spinney/{INDEX}/_similar/{rng.randrange(self.docs)}" for _ in range(self.requests)]
        self.report("_similar", [self.timed(self.reader, "GET", path)[0] for path in paths])


def main():
    parser, parse = common.arguments("read", docs=(1_000_000, 20_000))
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="leave the server and its index for the next run")
    options = parse()
    binary = options.binary or common.build()
    serving = kept_server if options.keep else functools.partial(search_server, INSTANCE)
    heap = "1g" if options.quick else "3g"
    with serving("--heap", heap, "--cpu", "0") as told, tempfile.TemporaryDirectory() as work:
        measure(options, options.docs, binary, told["url"], Path(work))


def measure(options, docs, binary, url, work):
    spinney = None
    try:
        server = Client(url, 600)
        filled = kept_index(server, docs, options.shards)
        if ROOTS in server.ask("GET", "/_aliases"):
            server.ask("DELETE", f"/{ROOTS}")
        if not filled:
            say(f"filling {docs} documents on {options.shards} shards")
            filled = fill(server, docs, options.shards)
        os.sched_setaffinity(0, {1})
        bench = Bench(server, filled, 20 if options.quick else 200)
        say(f"{bench.groups} groups, {bench.repeated} of two or more")
        bench.reconcile(binary, url, 1 if options.quick else 5)
        fields = ["--time-field", "published_at", "--medium-field", "medium"]
        options = ["--upstream", url, "--index", "news-*", *fields, "--log", "warn"]
        spinney, address = common.serve(binary, options, work)
        bench.reader = Client(address, 600)
        say("waiting until spinney has compared the index once")
        while not bench.is_compared():
            time.sleep(1)
        bench.warm_up()
        bench.whole_index()
        bench.under_queries()
        bench.by_similar_count()
        bench.facets()
        bench.similar()
        bench.plain()
    finally:
        if spinney:
            common.end(spinney)


if __name__ == "__main__":
    main()
