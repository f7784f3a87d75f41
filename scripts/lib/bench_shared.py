"""scripts/bench shared: sidecars that share a forest in a Redis Cluster, beside one with a forest of its own, in front
of one search server.

Needs Linux, two cores, Redis 7, Python 3 (with venv and pip for datasketch), and what scripts/search-server needs.
"""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import common
from common import (
    BULK, NEWS, ROOT, STAMP, Load, Texts, ask, cpu, create_index, die, end, peer_python, quantile, redis_cli,
    redis_cluster, route, say, search_server, serve, tell,
)

SERVER, REDIS, PEER_REDIS = "bench-shared", "bench-shared", "bench-shared-peer"
INDEX, WARM, ROUTE = "shared-bench", "shared-bench-warm", "shared-bench*"
IN_FLIGHT = 6
PARTS = ["rate", "latency", "placements", "peer"]
# Where the others are, besides the search server, which has CPU 0 for itself.
REST = 1


class Redis:
    """A cluster, or one node, of our own."""

    def __init__(self, told):
        self.version, self.masters, self.pids = told["version"], told["masters"].split(","), told["pid"].split(",")
        self.url = "redis://" + ",".join(self.masters)

    def ask(self, *command):
        """The answer of each master."""
        return [redis_cli(master, *command) for master in self.masters]

    def empty(self):
        self.ask("FLUSHALL")
        self.ask("CONFIG", "RESETSTAT")

    def cpu(self):
        return sum(cpu(pid) for pid in self.pids)

    def info(self, section, name):
        found = (line for answer in self.ask("INFO", section) for line in answer.splitlines())
        return sum(int(line.split(":")[1]) for line in found if line.startswith(f"{name}:"))

    def lessons(self):
        """What sharing what was learned has cost: commands, bytes kept, and microseconds of Redis."""
        calls = usec = kept = 0
        for line in (line for answer in self.ask("INFO", "commandstats") for line in answer.splitlines()):
            if line.startswith(("cmdstat_xadd:", "cmdstat_xrange:", "cmdstat_pexpire:")):
                figures = dict(pair.split("=") for pair in line.partition(":")[2].split(","))
                calls += int(figures["calls"])
                usec += int(figures["usec"])
        for master in self.masters:
            for key in redis_cli(master, "--scan", "--pattern", "spinney:lessons:*").split():
                kept += int(redis_cli(master, "MEMORY", "USAGE", key, "SAMPLES", "0"))
        return {"calls": calls, "usec": usec, "bytes": kept}


class Bench:
    def __init__(self, spinney, node, redis, work):
        self.spinney, self.node, self.redis, self.work = spinney, node, redis, work
        self.url, self.pids = node["url"], node["pid"].split(",")

    def create(self, index):
        create_index(self.url, index, NEWS | STAMP, refresh_interval="-1")

    def sidecars(self, count):
        """`count` that share an empty forest; 0: one with a forest of its own."""
        self.redis.empty()
        options = [*route(self.url, ROUTE), "--counts", "off", "--log", "warn"]
        if count:
            options += ["--forest-store", self.redis.url]
        return [serve(self.spinney, options, self.work) for _ in range(max(1, count))]

    def warm(self, addresses):
        """The cluster knows the writers, and its code is compiled."""
        for at, address in enumerate(addresses):
            Load([address], Texts(seed=100 + at).bulks(2 * BULK), WARM, 1).run()

    def load(self, count, bulks):
        """One load, into a fresh index."""
        self.create(INDEX)
        processes, addresses = zip(*self.sidecars(count))
        try:
            self.warm(addresses)
            memory = self.redis.info("memory", "used_memory")
            self.redis.ask("CONFIG", "RESETSTAT")
            shared = self.stats(addresses)
            spent = lambda: {
                "server": sum(cpu(pid) for pid in self.pids),
                "sidecars": sum(cpu(process.pid) for process in processes), "redis": self.redis.cpu(),
                "load": time.process_time(),
            }
            before, seconds, after = spent(), Load(addresses, bulks, INDEX, IN_FLIGHT).run(), spent()
            docs = len(bulks) * BULK
            figures = {"docs_per_s": docs / seconds}
            for name in before:
                figures[f"{name}_ms"] = (after[name] - before[name]) * 1e6 / docs
                figures[f"{name}_cores"] = (after[name] - before[name]) / seconds
            if count:
                now, lessons = self.stats(addresses), self.redis.lessons()
                figures |= {
                    "keys": (now["commands"] - shared["commands"]) / docs,
                    "trips": (now["round_trips"] - shared["round_trips"]) / len(bulks),
                    "again": (now["conflicts"] - shared["conflicts"]) / docs,
                    "bytes": (self.redis.info("memory", "used_memory") - memory) / docs,
                    "lesson_commands": lessons["calls"] / docs, "lesson_bytes": lessons["bytes"] / docs,
                    "lesson_us": lessons["usec"] / docs,
                }
        finally:
            end(*processes)
        self.is_whole(docs)
        return figures

    def stats(self, addresses):
        total = {"commands": 0, "round_trips": 0, "conflicts": 0}
        for address in addresses:
            for forest in ask(f"http://{address}", "GET", "/_spinney/_stats")["forests"].values():
                for name in total:
                    total[name] += (forest.get("shared") or {}).get(name, 0)
        return total

    def is_whole(self, docs):
        ask(self.url, "POST", f"/{INDEX}/_refresh")
        query = {"query": {"exists": {"field": "cluster_root"}}}
        found = ask(self.url, "POST", f"/{INDEX}/_count", query)["count"]
        if found != docs:
            die(f"{found} of {docs} documents have a root")

    def rates(self, rounds, bulks):
        found = []
        for number in range(rounds):
            results = {}
            order = [0, 1, 2, 3]
            order = order[number % 4 :] + order[: number % 4]
            for count in order:
                results[count] = self.load(count, bulks)
                say(f"round {number + 1}/{rounds}, {count or 'no'} sharing: {results[count]['docs_per_s']:.0f} docs/s")
            found.append(results)
        for count in (0, 1, 2, 3):
            runs = [results[count] for results in found]
            middle = lambda name: statistics.median(run[name] for run in runs)
            ratios = [results[count]["docs_per_s"] / results[0]["docs_per_s"] for results in found]
            line = {
                "bench": "shared", "part": "rate", "forest": "shared" if count else "local", "sidecars": max(1, count),
                "docs": len(bulks) * BULK, "rounds": rounds, "load_average": load_average(),
                "docs_per_s": round(middle("docs_per_s")), "ratio": round(statistics.median(ratios), 3),
                "ratios": sorted(round(ratio, 3) for ratio in ratios),
            }
            for who in ("server", "sidecars", "redis", "load"):
                line[f"{who}_cores"] = round(middle(f"{who}_cores"), 2)
            for who in ("server", "sidecars", "redis", "load"):
                line[f"{who}_cpu_ms_per_1000_docs"] = round(middle(f"{who}_ms"), 1)
            if count:
                line |= {
                    "keys_per_doc": round(middle("keys"), 2), "round_trips_per_bulk": round(middle("trips"), 2),
                    "again_per_doc": round(middle("again"), 4), "bytes_per_doc": round(middle("bytes")),
                    "lesson_commands_per_doc": round(middle("lesson_commands"), 4),
                    "lesson_bytes_per_doc": round(middle("lesson_bytes"), 1),
                    "lesson_redis_us_per_doc": round(middle("lesson_us"), 2),
                }
            tell(**line)

    def latency(self, count):
        """Single bulks in turns through one sidecar with a forest of its own and one that shares."""
        self.create(INDEX)
        (local, local_at), = self.sidecars(0)
        (shared, shared_at), = self.sidecars(1)
        try:
            self.warm([local_at, shared_at])
            took = {local_at: [], shared_at: []}
            for number, body in enumerate(Texts(seed=23).bulks(count * BULK)):
                for address in [local_at, shared_at] if number % 2 else [shared_at, local_at]:
                    one = Load([address], [body], INDEX, 1)
                    one.run()
                    took[address] += one.took
        finally:
            end(local, shared)
        line = {"bench": "shared", "part": "latency", "bulks": count, "load_average": load_average()}
        for share in (50, 99):
            of = {address: quantile(times, share / 100) * 1e3 for address, times in took.items()}
            line |= {f"local_p{share}_ms": round(of[local_at], 1), f"shared_p{share}_ms": round(of[shared_at], 1),
                     f"added_p{share}_ms": round(of[shared_at] - of[local_at], 1)}
        tell(**line)


def load_average():
    return float(Path("/proc/loadavg").read_text().split()[0])


def placements(masters, quick):
    """Placements alone: scripts/bench forest --store redis, in this run."""
    command = [str(ROOT / "scripts/bench"), "forest", "--store", "redis", "--masters", str(masters)]
    if subprocess.run(command + (["--quick"] if quick else [])).returncode:
        die("scripts/bench forest failed")


def peer(docs):
    """datasketch's MinHashLSH on a Redis of the same kind."""
    python = peer_python("datasketch")
    if python is None:
        return
    with redis_cluster(PEER_REDIS, "--masters", "1", "--cpu", str(REST)) as told:
        if subprocess.run([python, ROOT / "scripts/lib/peer_datasketch.py", told["masters"], str(docs)]).returncode:
            die("datasketch failed")


def main():
    parser, parse = common.arguments("shared", docs=(60_000, 4_000), rounds=(6, 1))
    parser.add_argument("--masters", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--part", action="append", choices=PARTS)
    args = parse()
    parts = args.part or PARTS
    if load_average() > 1.5:
        say(f"something else keeps this machine busy (load average {load_average()}): do not trust the figures")
    if {"rate", "latency"} & set(parts):
        with_server(args, parts)
    # What runs from here on has the machine for itself.
    if "placements" in parts:
        for masters in (1, 3):
            placements(masters, args.quick)
    if "peer" in parts:
        peer(500 if args.quick else 4_000)


def with_server(args, parts):
    spinney, everywhere = args.binary or common.build(), os.sched_getaffinity(0)
    options = ["--cpu", "0", "--nodes", str(args.nodes), *(["--heap", "2g"] if args.nodes == 1 else [])]
    with (
        search_server(SERVER, *options) as node,
        redis_cluster(REDIS, "--masters", str(args.masters), "--cpu", str(REST)) as told,
        tempfile.TemporaryDirectory(prefix="spinney-shared-") as work,
    ):
        redis = Redis(told)
        try:
            os.sched_setaffinity(0, {REST})
            bench = Bench(spinney, node, redis, Path(work))
            bulks = list(Texts(words=(290, 330)).bulks(args.docs))
            say(f"{args.docs} documents of {sum(map(len, bulks)) // args.docs} bytes, Redis {redis.version}")
            # The server's code is compiled by what it does.
            bench.load(1, bulks)
            if "rate" in parts:
                bench.rates(args.rounds, bulks)
            if "latency" in parts:
                bench.latency(10 if args.quick else 200)
        finally:
            os.sched_setaffinity(0, everywhere)


if __name__ == "__main__":
    main()
