"""scripts/bench backfill: how fast spinney backfill stamps an existing index, beside writing the same documents fresh.

Needs Linux, Python 3 without anything else, and what scripts/search-server needs.
"""

import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import common
from common import (
    BULK, IN_FLIGHT, SEARCH_SERVER, Away, Client, Load, Texts, ask, bulk, cpu, die, end, say, search_server, send_bulk,
)

INSTANCE = "bench-backfill"
# The archive's documents are a second apart.
BEGIN = 1_750_000_000
# What the writer adds while backfill runs.
WRITES, WRITE_BULK = 100, 50


def date(second):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGIN + second))


class Archive:
    """Bulks in a file: made once, and the same in every load."""

    def __init__(self, path, docs):
        self.path, self.places = path, []
        texts, at = Texts(), 0
        with open(path, "wb") as file:
            for first in range(0, docs, BULK):
                numbers = range(first, min(first + BULK, docs))
                body = bulk((number, texts.next(number) | {"published": date(number)}) for number in numbers)
                file.write(body)
                self.places.append((at, len(body)))
                at += len(body)
        self.bytes = at

    def bulks(self):
        with open(self.path, "rb") as file:
            for _, length in self.places:
                yield file.read(length)


MAPPING = common.NEWS | {"published": {"type": "date"}}


def groups(url, index):
    """For every document of the archive the first number of its group; documents without a stamp have none."""
    roots, after = {}, None
    ask(url, "POST", f"/{index}/_refresh")
    while True:
        body = {
            "size": 10_000, "_source": False, "track_total_hits": False, "docvalue_fields": ["cluster_root"],
            "sort": [{"published": "asc"}, {"_seq_no": "asc"}],
        }
        if after:
            body["search_after"] = after
        hits = ask(url, "POST", f"/{index}/_search", body)["hits"]["hits"]
        for hit in hits:
            roots[hit["_id"]] = hit.get("fields", {}).get("cluster_root", [None])[0]
        if len(hits) < 10_000:
            break
        after = hits[-1]["sort"]
    first, together = {}, {}
    for number in sorted((id for id in roots if id.isdigit()), key=int):
        if roots[number]:
            together[number] = first.setdefault(roots[number], number)
    return together, sum(root is None for root in roots.values())


class Writer:
    """Writes new documents through spinney until it is stopped. What spinney does not take, it sends again."""

    def __init__(self, address, index, docs):
        self.address, self.index, self.docs = address, index, docs
        self.over, self.written = threading.Event(), 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        texts = Texts(seed=77)
        while not self.over.is_set():
            documents = []
            for _ in range(WRITE_BULK):
                source = texts.next(self.written) | {"published": date(self.docs + self.written // 10)}
                source["content"] = source["content"].rpartition(". Published by")[0]
                documents.append((f"new-{self.written}", source))
                self.written += 1
            body = bulk(documents)
            while not self.over.is_set() and not self.send(body):
                self.over.wait(0.5)
            self.over.wait(WRITE_BULK / WRITES)

    def send(self, body):
        try:
            return send_bulk(Client(self.address[0], 60), body, self.index) is None
        except Away:
            return False

    def stop(self):
        self.over.set()
        self.thread.join()
        return self.written


class Bench:
    def __init__(self, spinney, told, work, docs, slices):
        self.spinney, self.told, self.work, self.docs = spinney, told, work, docs
        self.slices = slices
        self.url = told["url"]

    def options(self, index, name):
        return [
            *common.route(self.url, index), "--clock", "field:published", "--counts", "off",
            "--data-dir", str(self.work / name),
        ]

    def serve(self, index):
        return common.serve(self.spinney, self.options(index, index), self.work)

    def fresh(self, archive, index, in_flight):
        """Documents a second through a spinney of its own."""
        common.create_index(self.url, index, MAPPING | common.STAMP)
        process, address = self.serve(index)
        took = Load([address], archive.bulks(), index, in_flight).run()
        end(process)
        return self.docs / took

    def wait_for_merges(self):
        """An archive has been there for a while: what is measured next does not pay for the merges of its load."""
        while ask(self.url, "GET", "/_stats/merge")["_all"]["total"]["merges"]["current"]:
            time.sleep(0.5)

    def direct(self, archive, index):
        common.create_index(self.url, index, MAPPING)
        took = Load([self.url], archive.bulks(), index).run()
        ask(self.url, "POST", f"/{index}/_refresh")
        self.wait_for_merges()
        return self.docs / took

    def backfill(self, address):
        # A group of its own: it is ended by its process id.
        command = [self.spinney, "backfill", "--spinney-url", f"http://{address}", "--slices", str(self.slices)]
        return subprocess.Popen(command, stdout=subprocess.PIPE)

    def unstamped(self, index):
        ask(self.url, "POST", f"/{index}/_refresh")
        query = {"query": {"bool": {"must_not": [{"exists": {"field": "cluster_root"}}]}}}
        return ask(self.url, "POST", f"/{index}/_count", query)["count"]

    def map_stamp(self, index):
        """Before the first write through spinney, or the cluster guesses the types."""
        ask(self.url, "PUT", f"/{index}/_mapping", {"properties": common.STAMP})

    def timed(self, index):
        """Backfills, while a writer goes on."""
        self.map_stamp(index)
        process, address = self.serve(index)
        writer = Writer([address], index, self.docs)
        node, own = cpu(self.told["pid"]), cpu(process.pid)
        begun = time.monotonic()
        child = self.backfill(address)
        said = child.stdout.read().decode()
        used = common.finish(child)
        took = time.monotonic() - begun
        written = writer.stop()
        if child.returncode:
            die(f"spinney backfill ended with {child.returncode}: {said}")
        say(said.strip())
        figures = {
            "backfill_docs_per_s": round(self.docs / took), "cpu_s": round(used.ru_utime + used.ru_stime, 1),
            "spinney_cpu_s": round(cpu(process.pid) - own, 1), "server_cpu_s": round(cpu(self.told["pid"]) - node, 1),
            "peak_rss_mb": round(used.ru_maxrss / 1000), "written_meanwhile": written,
        }
        end(process)
        return figures

    def killed(self, index):
        """Backfills, and kills in turn what takes part, each after a share of the documents."""
        self.map_stamp(index)
        process, address = self.serve(index)
        # The address may change with a restart.
        known = [address]
        writer = Writer(known, index, self.docs)
        kills = []
        for share, what in [(0.8, "backfill"), (0.55, "spinney"), (0.3, "node")]:
            child = self.backfill(known[0])
            while child.poll() is None and self.unstamped(index) > share * self.docs:
                time.sleep(0.2)
            if child.poll() is not None:
                die(f"backfill ended with {child.returncode} before the {what} was killed")
            say(f"kill -9: {what}")
            if what == "backfill":
                child.send_signal(signal.SIGKILL)
            elif what == "spinney":
                process.kill()
                process.wait()
                process, known[0] = self.serve(index)
                # It does not find the spinney of before any more.
                child.send_signal(signal.SIGKILL)
            else:
                subprocess.run([SEARCH_SERVER, "kill", INSTANCE], check=True, stdout=subprocess.DEVNULL)
                restart = [SEARCH_SERVER, "restart", INSTANCE]
                self.told |= common.lines(subprocess.run(restart, check=True, stdout=subprocess.PIPE, text=True).stdout)
                # It waits for the node.
            child.stdout.read()
            child.wait()
            kills.append({"killed": what, "backfill_ended_with": child.returncode})
        child = self.backfill(known[0])
        child.stdout.read()
        if child.wait():
            die(f"the last backfill ended with {child.returncode}")
        writer.stop()
        end(process)
        return kills


def main():
    parser, parse = common.arguments("backfill", docs=(1_000_000, 20_000), rounds=(1, 1))
    parser.add_argument("--slices", type=int, default=1)
    parser.add_argument("--kills", action="store_true")
    args = parse()
    docs, spinney = args.docs, args.binary or common.build()
    with (
        search_server(INSTANCE, "--heap", "2g") as told,
        tempfile.TemporaryDirectory(prefix="spinney-backfill-") as work,
    ):
        bench = Bench(spinney, told, Path(work), docs, args.slices)
        say(f"making {docs} documents")
        archive = Archive(Path(work) / "archive", docs)
        say("in order through spinney")
        in_order = bench.fresh(archive, "in-order", 1)
        expected, none = groups(bench.url, "in-order")
        if none or len(expected) != docs:
            die(f"{none} documents have no stamp after a load through spinney")
        for number in range(args.rounds):
            index = f"adopted-{number}"
            say("fresh through spinney")
            fresh = bench.fresh(archive, f"fresh-{number}", IN_FLIGHT)
            ask(bench.url, "DELETE", f"/fresh-{number}")
            say("past spinney")
            direct = bench.direct(archive, index)
            figures = {
                "bench": "backfill", "server": f"{told['kind']} {told['version']}", "method": "verified", "docs": docs,
                "slices": args.slices,
                "bytes_per_doc": round(archive.bytes / docs), "fresh_docs_per_s": round(fresh),
                "in_order_docs_per_s": round(in_order), "direct_docs_per_s": round(direct),
            }
            say("backfill")
            if args.kills:
                figures["kills"] = bench.killed(index)
            else:
                figures |= bench.timed(index)
                figures["ratio"] = round(figures["backfill_docs_per_s"] / fresh, 2)
                figures["ratio_in_order"] = round(figures["backfill_docs_per_s"] / in_order, 2)
            found, figures["without_stamp"] = groups(bench.url, index)
            figures["other_groups"] = sum(found.get(id) != first for id, first in expected.items())
            common.tell(**figures)
            ask(bench.url, "DELETE", f"/{index}*")


if __name__ == "__main__":
    main()
