"""scripts/bench backfill: how fast spinney backfill stamps an index that exists, beside writing the same documents fresh.

Needs Linux, Python 3 without anything else, and what scripts/search-server needs.
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench_common import BULK, IN_FLIGHT, SEARCH_SERVER, Texts, ask, build, cpu, die, load, say, search_server, serve

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
                lines = []
                for number in range(first, min(first + BULK, docs)):
                    source = texts.next(number) | {"published": date(number)}
                    lines += [f'{{"index":{{"_id":"{number}"}}}}', json.dumps(source)]
                body = ("\n".join(lines) + "\n").encode()
                file.write(body)
                self.places.append((at, len(body)))
                at += len(body)
        self.bytes = at

    def bulks(self):
        with open(self.path, "rb") as file:
            for _, length in self.places:
                yield file.read(length)


def mappings(stamped):
    fields = {
        "title": {"type": "text"}, "content": {"type": "text"}, "media": {"type": "keyword"}, "published": {"type": "date"},
    }
    if stamped:
        fields |= {
            "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"}, "cluster_arrival": {"type": "date"},
        }
    return {"settings": {"number_of_shards": 1, "number_of_replicas": 0}, "mappings": {"properties": fields}}


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
            lines = []
            for _ in range(WRITE_BULK):
                source = texts.next(self.written) | {"published": date(self.docs + self.written // 10)}
                source["content"] = source["content"].rpartition(". Published by")[0]
                lines += [f'{{"index":{{"_id":"new-{self.written}"}}}}', json.dumps(source)]
                self.written += 1
            body = "\n".join(lines) + "\n"
            while not self.over.is_set() and not self.send(body):
                self.over.wait(0.5)
            self.over.wait(WRITE_BULK / WRITES)

    def send(self, body):
        try:
            connection = http.client.HTTPConnection(self.address[0], timeout=60)
            connection.request("POST", f"/{self.index}/_bulk", body, {"Content-Type": "application/x-ndjson"})
            return b'"errors":false' in connection.getresponse().read()[:200]
        except OSError:
            return False
        except http.client.HTTPException:
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
            "--upstream", self.url, "--index", index, "--text-field", "content", "--title-field", "title",
            "--clock", "field:published", "--counts", "off", "--data-dir", str(self.work / name),
        ]

    def fresh(self, archive, index, in_flight):
        """Documents a second through a spinney of its own."""
        ask(self.url, "PUT", f"/{index}", mappings(True))
        process, address = serve(self.spinney, self.options(index, index), self.work)
        begun = time.monotonic()
        load(address, archive.bulks(), index, in_flight)
        took = time.monotonic() - begun
        process.terminate()
        process.wait()
        return self.docs / took

    def wait_for_merges(self):
        """An archive has been there for a while: what is measured next does not pay for the merges of its load."""
        while ask(self.url, "GET", "/_stats/merge")["_all"]["total"]["merges"]["current"]:
            time.sleep(0.5)

    def direct(self, archive, index):
        ask(self.url, "PUT", f"/{index}", mappings(False))
        begun = time.monotonic()
        load(self.url.removeprefix("http://"), archive.bulks(), index)
        took = time.monotonic() - begun
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
        fields = mappings(True)["mappings"]["properties"]
        stamp = {name: mapping for name, mapping in fields.items() if name.startswith("cluster_")}
        ask(self.url, "PUT", f"/{index}/_mapping", {"properties": stamp})

    def timed(self, index):
        """Backfills, while a writer goes on."""
        self.map_stamp(index)
        process, address = serve(self.spinney, self.options(index, index), self.work)
        writer = Writer([address], index, self.docs)
        node, own = cpu(self.told["pid"]), cpu(process.pid)
        begun = time.monotonic()
        child = self.backfill(address)
        said = child.stdout.read().decode()
        _, status, used = os.wait4(child.pid, 0)
        took = time.monotonic() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        written = writer.stop()
        if child.returncode:
            die(f"spinney backfill ended with {child.returncode}: {said}")
        say(said.strip())
        figures = {
            "backfill_docs_per_s": round(self.docs / took), "cpu_s": round(used.ru_utime + used.ru_stime, 1),
            "spinney_cpu_s": round(cpu(process.pid) - own, 1), "server_cpu_s": round(cpu(self.told["pid"]) - node, 1),
            "peak_rss_mb": round(used.ru_maxrss / 1000), "written_meanwhile": written,
        }
        process.terminate()
        process.wait()
        return figures

    def killed(self, index):
        """Backfills, and kills in turn what takes part, each after a share of the documents."""
        self.map_stamp(index)
        process, address = serve(self.spinney, self.options(index, index), self.work)
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
                process, known[0] = serve(self.spinney, self.options(index, index), self.work)
                # It does not find the spinney of before any more.
                child.send_signal(signal.SIGKILL)
            else:
                subprocess.run([SEARCH_SERVER, "kill", INSTANCE], check=True, stdout=subprocess.DEVNULL)
                told = subprocess.run([SEARCH_SERVER, "restart", INSTANCE], check=True, stdout=subprocess.PIPE, text=True).stdout
                self.told |= dict(line.split("=", 1) for line in told.splitlines())
                # It waits for the node.
            child.stdout.read()
            child.wait()
            kills.append({"killed": what, "backfill_ended_with": child.returncode})
        child = self.backfill(known[0])
        child.stdout.read()
        if child.wait():
            die(f"the last backfill ended with {child.returncode}")
        writer.stop()
        process.terminate()
        process.wait()
        return kills


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench backfill")
    parser.add_argument("--docs", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--binary", default=None)
    parser.add_argument("--slices", type=int, default=1)
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    docs = args.docs or (20_000 if args.quick else 1_000_000)
    spinney = args.binary or build()
    with search_server(INSTANCE, "--heap", "2g") as told, tempfile.TemporaryDirectory(prefix="spinney-backfill-") as work:
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
                "bench": "backfill", "server": f"{told['kind']} {told['version']}", "method": "verified", "docs": docs, "slices": args.slices,
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
            print(json.dumps(figures), flush=True)
            ask(bench.url, "DELETE", f"/{index}*")


if __name__ == "__main__":
    main()
