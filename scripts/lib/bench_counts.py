"""scripts/bench counts: what counting in the background costs the search server, and how late the order of groups is.

Needs Linux, two cores, Python 3 without anything else, and what scripts/search-server needs.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench_common import BULK, IN_FLIGHT, INDEX, Texts, ask, build, cpu, die, quantile, say, search_server, serve

INSTANCE = "bench-counts"
# Of 100 documents so many join an earlier one, and all have about 2 KB.
REPRINTS, WORDS = 38, (290, 330)
# After the last bulk, so long is waited for counting to catch up, in either way.
DRAIN = 15
# The rolling reconcile goes once through everything in 64 s.
ROLL = 64


class Load:
    """Sends bulks at a steady rate, or as fast as they are taken."""

    def __init__(self, address, bulks, rate):
        self.address, self.bulks, self.rate = address, iter(bulks), rate
        self.lock, self.failed, self.sent = threading.Lock(), [], 0

    def send(self):
        connection = http.client.HTTPConnection(self.address, timeout=600)
        while not self.failed:
            with self.lock:
                body, number = next(self.bulks, None), self.sent
                self.sent += 1
            if body is None:
                break
            if self.rate:
                time.sleep(max(0, self.begun + number * BULK / self.rate - time.monotonic()))
            connection.request("POST", f"/{INDEX}/_bulk", body, {"Content-Type": "application/x-ndjson"})
            answer = connection.getresponse().read()
            if b'"errors":false' not in answer[:200]:
                self.failed.append(answer[:2000])
        connection.close()

    def run(self, watch):
        """Seconds that it took; `watch` is called four times a second meanwhile."""
        self.begun = time.monotonic()
        threads = [threading.Thread(target=self.send) for _ in range(IN_FLIGHT)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            watch()
            time.sleep(0.25)
        if self.failed:
            die(f"a bulk failed: {self.failed[0]!r}")
        return time.monotonic() - self.begun


def create(url):
    for name in (INDEX, f"spinney-roots-{INDEX}"):
        try:
            ask(url, "DELETE", f"/{name}")
        except OSError:
            pass
    ask(url, "PUT", f"/{INDEX}", {
        "settings": {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "1s"},
        "mappings": {"properties": {
            "title": {"type": "text"}, "content": {"type": "text"}, "media": {"type": "keyword"},
            "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"}, "cluster_arrival": {"type": "date"},
        }},
    })


def is_behind(figures):
    return figures["lag_s"] > 0 or figures["reconciling"] > 0


class Bench:
    def __init__(self, spinney, node, work):
        self.spinney, self.node, self.work = spinney, node, work
        self.url, self.pid = node["url"], node["pid"]

    def serve(self, counts):
        options = ["--upstream", self.url, "--index", INDEX, "--text-field", "content", "--title-field", "title",
                   "--counts", counts, "--log", "warn"]
        return serve(self.spinney, options, self.work)

    def load(self, counts, bulks, rate):
        """One load: the server's processor time for a document, and what counting says of itself."""
        create(self.url)
        process, address = self.serve(counts)
        spinney = f"http://{address}"
        lags, figures = [], {}

        def watch():
            nonlocal figures
            if counts == "on":
                figures = ask(spinney, "GET", "/_spinney/_stats")["counts"]
                lags.append(figures["lag_s"])

        try:
            # The index is new and empty, and compared as a whole before anything is measured.
            watch()
            while counts == "on" and not figures["reconciled"]:
                time.sleep(0.1)
                watch()
            lags.clear()
            before, busy, began = cpu(self.pid), figures.get("busy_s", 0), time.monotonic()
            seconds = Load(address, bulks, rate).run(watch)
            written = list(lags)
            caught_up = None
            until = time.monotonic() + DRAIN
            while time.monotonic() < until or (counts == "on" and is_behind(figures)):
                watch()
                if counts == "on" and caught_up is None and not is_behind(figures):
                    caught_up = round(time.monotonic() - began - seconds, 1)
                time.sleep(0.25)
            spent = cpu(self.pid) - before
            wall = time.monotonic() - began
            result = {"us": spent * 1e6 / (len(bulks) * BULK), "docs_per_s": len(bulks) * BULK / seconds}
            if counts == "on":
                result |= {"lags": written, "caught_up": caught_up, "busy": (figures["busy_s"] - busy) / wall,
                           "roots": figures["roots_counted"]}
        finally:
            process.terminate()
            process.wait()
        if counts == "on":
            self.is_true()
        return result

    def is_true(self):
        """Every entry is as a comparison of the whole index finds it."""
        ask(self.url, "POST", f"/{INDEX},spinney-roots-{INDEX}/_refresh")
        told = subprocess.run([self.spinney, "reconcile", "--upstream", self.url, "--index", INDEX, "--dry-run"],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        if "0 missing, 0 wrong, 0 superfluous" not in told:
            die(f"the order is not true: {told}")

    def rolling(self):
        """Processor time of the server by wall time while nothing is written."""
        shares = {}
        for counts in ("off", "on"):
            process, address = self.serve(counts)
            try:
                if counts == "on":
                    while True:
                        figures = ask(f"http://{address}", "GET", "/_spinney/_stats")["counts"]
                        if figures["reconciled"] and not is_behind(figures):
                            break
                        time.sleep(0.5)
                before, began = cpu(self.pid), time.monotonic()
                time.sleep(ROLL)
                shares[counts] = (cpu(self.pid) - before) / (time.monotonic() - began)
            finally:
                process.terminate()
                process.wait()
        return shares


def report(case, rounds, docs, rate):
    on, off = [round_["on"] for round_ in rounds], [round_["off"] for round_ in rounds]
    lags = [lag for result in on for lag in result["lags"]]
    line = {
        "bench": "counts", "case": case, "docs": docs, "rounds": len(rounds), "rate": rate,
        "docs_per_s_off": round(statistics.median(r["docs_per_s"] for r in off)),
        "docs_per_s_on": round(statistics.median(r["docs_per_s"] for r in on)),
        "server_us_per_doc_off": round(statistics.median(r["us"] for r in off), 1),
        "server_us_per_doc_on": round(statistics.median(r["us"] for r in on), 1),
        "ratio": round(statistics.median(a["us"] / b["us"] for a, b in zip(on, off)), 3),
        "ratios": sorted(round(a["us"] / b["us"], 3) for a, b in zip(on, off)),
        "busy_share": round(statistics.median(r["busy"] for r in on), 4),
        "busy_share_most": round(max(r["busy"] for r in on), 4),
        "roots_per_doc": round(statistics.median(r["roots"] for r in on) / docs, 3),
        "lag_p50_s": round(quantile(lags, 0.5), 2), "lag_p95_s": round(quantile(lags, 0.95), 2), "lag_most_s": round(quantile(lags, 1), 2),
        "caught_up_s": round(max(r["caught_up"] for r in on), 2),
    }
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench counts")
    parser.add_argument("--docs", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--binary", help="a spinney that is built already")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    docs = args.docs or (4_000 if args.quick else 60_000)
    rounds = args.rounds or (1 if args.quick else 8)
    if docs % BULK:
        parser.error(f"--docs must be a multiple of {BULK}")
    spinney = args.binary or build()
    with search_server(INSTANCE, "--cpu", "0", "--heap", "1g") as node:
        os.sched_setaffinity(0, {1})
        with tempfile.TemporaryDirectory(prefix="spinney-counts-") as work:
            bench = Bench(spinney, node, Path(work))
            bulks = list(Texts(reprints=REPRINTS, words=WORDS).bulks(docs))
            say(f"{docs} documents of {sum(map(len, bulks)) // docs} bytes")
            bench.load("on", bulks, None)
            full = bench.load("off", bulks, None)["docs_per_s"]
            rate = round(full / 2)
            say(f"{round(full)} documents a second without counting; half of that from now on")
            found = []
            for number in range(rounds):
                pair = {}
                for counts in ("on", "off") if number % 2 else ("off", "on"):
                    pair[counts] = bench.load(counts, bulks, rate)
                    say(f"round {number + 1}/{rounds} {counts}: {pair[counts]['us']:.0f} us a document")
                found.append(pair)
            report("half load", found, docs, rate)
            shares = bench.rolling()
            print(json.dumps({"bench": "counts", "case": "nothing is written", "docs": docs,
                              "server_core_share_off": round(shares["off"], 4),
                              "server_core_share_on": round(shares["on"], 4)}), flush=True)


if __name__ == "__main__":
    main()
