"""scripts/bench order: how late the order of groups is, under a steady load of writes.

Needs Linux, two cores, Python 3 without anything else, and what scripts/search-server needs.
"""

import argparse
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import common
from bench_counts import create
from common import BULK, INDEX, Away, Client, Load, Texts, ask, bulk, die, quantile, say, search_server, send_bulk, tell

INSTANCE = "bench-order"
ROOTS = f"spinney-roots-{INDEX}"
# Bulks a second, and of 100 documents how many join an earlier one, and how many replace one by another text.
BULKS, REPRINTS, MOVES = 5, 38, 5


class Plan(NamedTuple):
    """Documents a second, and seconds: of the load, until probes begin since the server is warm, until their documents
    move, until a probe is given up; and the number of probes."""

    rates: str
    load: int
    warm: int
    moving: int
    most: int
    probes: int


USUAL, QUICK = Plan("100,1000,5000", 80, 20, 45, 160, 15), Plan("100", 20, 5, 10, 40, 3)


def documents(number):
    """Documents with their ids, drawn once."""
    texts, pick = Texts(reprints=REPRINTS, words=(100, 130)), random.Random(5)
    for at in range(number):
        moves = at > 1_000 and pick.random() < MOVES / 100
        document = texts.next(at)
        # A number would make another text of a reprint.
        document["content"] = document["content"].rsplit(". Published", 1)[0]
        yield pick.randrange(at) if moves else at, document


class Probe:
    """A group of two documents, of which one leaves it again."""

    def __init__(self, address, number, text):
        self.client, self.id = Client(address), f"probe-{number}"
        self.came, self.moved, self.gone = None, None, None
        self.root, self.written = None, self.write(("a", text), ("b", text))

    def write(self, *texts):
        """Writes its documents, and answers when that was done."""
        failed = send_bulk(self.client, bulk((f"{self.id}-{name}", {"content": text}) for name, text in texts))
        if failed:
            die(f"a probe was not written: {failed!r}")
        return time.monotonic()

    def see(self, roots, now, may_move, text):
        """Takes down whether there is an entry. Once there was one, the group loses a document."""
        if self.came is None:
            self.came = now if self.root in roots else None
        elif self.moved is None:
            self.moved = self.write(("b", text)) if may_move else None
        elif self.gone is None:
            self.gone = None if self.root in roots else now


def entries(url, roots):
    """Of these roots, those with an entry."""
    query = {"size": len(roots), "_source": ["cluster_root"], "query": {"terms": {"cluster_root": roots}}}
    try:
        hits = ask(url, "POST", f"/{ROOTS}/_search", query)["hits"]["hits"]
    except Away:
        return set()
    return {hit["_source"]["cluster_root"] for hit in hits}


class Watch:
    """The probes of one load, and what spinney says of its counts meanwhile."""

    def __init__(self, url, address, plan):
        self.url, self.address, self.plan, self.probes, self.lags = url, address, plan, [], []
        self.random, self.words, self.began = random.Random(3), Texts(seed=77).words, time.monotonic()

    def passed(self):
        return time.monotonic() - self.began

    def text(self):
        return " ".join(self.random.choice(self.words) for _ in range(50))

    def __call__(self):
        """Begins a probe if it is time for one, and looks at the entries of all."""
        passed, plan = self.passed(), self.plan
        if len(self.probes) < plan.probes and passed > plan.warm + len(self.probes):
            probe = Probe(self.address, len(self.probes), self.text())
            probe.root = ask(self.url, "GET", f"/{INDEX}/_doc/{probe.id}-a")["_source"]["cluster_root"]
            self.probes.append(probe)
        found, now = entries(self.url, [probe.root for probe in self.probes]), time.monotonic()
        for number, probe in enumerate(self.probes):
            # At another moment of the scan's round.
            probe.see(found, now, passed > plan.moving + number * 1.5, self.text())
        if plan.warm < passed < plan.load:
            self.lags.append(common.counts(self.address)["lag_s"])

    def is_over(self):
        are_through = len(self.probes) == self.plan.probes and all(probe.gone for probe in self.probes)
        return are_through or self.passed() > self.plan.most

    def figures(self):
        came = [probe.came - probe.written for probe in self.probes if probe.came]
        gone = [probe.gone - probe.moved for probe in self.probes if probe.gone]
        quantiles = lambda of: [round(quantile(of, share), 1) for share in (0.5, 1)] if of else None
        return {"joined": len(came), "joined_p50_most_s": quantiles(came), "left": len(gone),
                "left_p50_most_s": quantiles(gone), "lag_p50_most_s": quantiles(self.lags)}


def measure(url, address, bulks, plan):
    common.until(lambda: common.counts(address)["reconciled"], "the new index is compared", pause=0.2)
    watch = Watch(url, address, plan)
    # The load ends in time, though the server may not take all of it.
    in_time = (body for body in bulks if watch.passed() < plan.load)
    load = Load([address], in_time, rate=BULKS * BULK)
    load.run(watch)
    while not watch.is_over():
        watch()
        time.sleep(0.25)
    return watch.figures() | {"bulks": load.sent, "busy_s": round(common.counts(address)["busy_s"], 1)}


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench order")
    parser.add_argument("--rates", help="documents a second")
    parser.add_argument("--most", type=int, help="seconds after which a probe is given up")
    parser.add_argument("--binary", help="a spinney that is built already")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    plan = QUICK if args.quick else USUAL
    plan = plan._replace(rates=args.rates or plan.rates, most=args.most or plan.most)
    rates = [int(rate) for rate in plan.rates.split(",")]
    spinney, drawn = args.binary or common.build(), list(documents(max(rates) * plan.load))
    with search_server(INSTANCE, "--cpu", "0", "--heap", "1g") as node:
        os.sched_setaffinity(0, {1})
        url = node["url"]
        for rate in rates:
            create(url)
            size = rate // BULKS
            bulks = [bulk(drawn[first : first + size]) for first in range(0, rate * plan.load, size)]
            options = ["--upstream", url, "--index", INDEX, "--text-field", "content", "--log", "warn"]
            with tempfile.TemporaryDirectory(prefix="spinney-order-") as work:
                process, address = common.serve(spinney, options, Path(work))
                try:
                    figures = measure(url, address, bulks, plan)
                finally:
                    common.end(process)
            tell(bench="order", rate=rate, **figures)
            ask(url, "POST", f"/{INDEX},{ROOTS}/_refresh")
            command = [spinney, "reconcile", "--upstream", url, "--index", INDEX, "--dry-run"]
            say(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


if __name__ == "__main__":
    main()
