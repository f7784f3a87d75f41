"""scripts/bench counts: what counting in the background costs the search server, and how late the order of groups is.

Needs Linux, two cores, Python 3 without anything else, and what scripts/search-server needs.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import common
from common import BULK, INDEX, NEWS, STAMP, Load, Texts, cpu, create_index, end, quantile, say, search_server, tell

INSTANCE = "bench-counts"
# Of 100 documents so many join an earlier one, and all have about 2 KB.
REPRINTS, WORDS = 38, (290, 330)
# After the last bulk, so long is waited for counting to catch up, in either way.
DRAIN = 15
# The rolling reconcile goes once through everything in 64 s.
ROLL = 64


def create(url):
    common.Client(url).send("DELETE", f"/spinney-roots-{INDEX}")
    create_index(url, INDEX, NEWS | STAMP, refresh_interval="1s")


def is_behind(figures):
    return figures["lag_s"] > 0 or figures["reconciling"] > 0 or figures["unscanned"] > 0


class Bench:
    def __init__(self, spinney, node, work):
        self.spinney, self.node, self.work = spinney, node, work
        self.url, self.pid = node["url"], node["pid"]

    def serve(self, counts):
        options = [*common.route(self.url, INDEX), "--counts", counts, "--log", "warn"]
        return common.serve(self.spinney, options, self.work)

    def load(self, counts, bulks, rate):
        """One load: the server's processor time for a document, and what counting says of itself."""
        create(self.url)
        process, address = self.serve(counts)
        spinney = f"http://{address}"
        lags, figures = [], {}

        def watch():
            nonlocal figures
            if counts == "on":
                figures = common.counts(spinney)
                lags.append(figures["lag_s"])

        try:
            # The index is new and empty, and compared as a whole before anything is measured.
            watch()
            while counts == "on" and not figures["reconciled"]:
                time.sleep(0.1)
                watch()
            lags.clear()
            before, busy, began = cpu(self.pid), figures.get("busy_s", 0), time.monotonic()
            seconds = Load([address], bulks, rate=rate).run(watch)
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
            end(process)
        if counts == "on":
            common.counts_are_true(self.spinney, self.url)
        return result

    def rolling(self):
        """Processor time of the server by wall time while nothing is written."""
        shares = {}
        for counts in ("off", "on"):
            process, address = self.serve(counts)
            try:
                if counts == "on":
                    while not common.has_counted(common.counts(f"http://{address}")):
                        time.sleep(0.5)
                before, began = cpu(self.pid), time.monotonic()
                time.sleep(ROLL)
                shares[counts] = (cpu(self.pid) - before) / (time.monotonic() - began)
            finally:
                end(process)
        return shares


def report(case, rounds, docs, rate):
    on, off = [round_["on"] for round_ in rounds], [round_["off"] for round_ in rounds]
    lags = [lag for result in on for lag in result["lags"]]
    tell(**{
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
        "lag_p50_s": round(quantile(lags, 0.5), 2), "lag_p95_s": round(quantile(lags, 0.95), 2),
        "lag_most_s": round(quantile(lags, 1), 2), "caught_up_s": round(max(r["caught_up"] for r in on), 2),
    })


def main():
    _, parse = common.arguments("counts", docs=(60_000, 4_000), rounds=(8, 1))
    args = parse()
    docs, rounds = args.docs, args.rounds
    spinney = args.binary or common.build()
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
            tell(bench="counts", case="nothing is written", docs=docs, server_core_share_off=round(shares["off"], 4),
                 server_core_share_on=round(shares["on"], 4))


if __name__ == "__main__":
    main()
