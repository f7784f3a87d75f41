"""scripts/bench recover: how long spinney recover takes to rebuild a forest from the index of a real OpenSearch node.

Needs Linux, Python 3 without anything else, and what scripts/search-server needs.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench_common import INDEX, Texts, ask, build, cpu, die, load, say, search_server, serve

INSTANCE = "bench-recover"


def inspect(spinney, data_dir):
    told = subprocess.run([spinney, "inspect", "--json", data_dir], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(told)


def recover(spinney, options):
    """Seconds, user and system time, and peak memory of one recovery; its standard error passes on."""
    begun = time.monotonic()
    process = subprocess.Popen([spinney, "recover", *options], stdout=subprocess.PIPE)
    said = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        die(f"spinney recover failed: {said}")
    say(said.strip())
    return time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench recover")
    parser.add_argument("--docs", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    docs = args.docs or (20_000 if args.quick else 1_000_000)
    rounds = args.rounds or (1 if args.quick else 3)
    spinney = build()
    proxy = None
    try:
        with search_server(INSTANCE, "--heap", "2g") as told, tempfile.TemporaryDirectory(prefix="spinney-recover-") as work:
            work = Path(work)
            url = told["url"]
            options = ["--upstream", url, "--index", INDEX, "--text-field", "content", "--title-field", "title"]
            ask(url, "PUT", f"/{INDEX}", {
                "settings": {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"},
                "mappings": {"properties": {
                    "title": {"type": "text"}, "content": {"type": "text"}, "media": {"type": "keyword"},
                    "cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"},
                    "cluster_arrival": {"type": "date"},
                }},
            })
            say(f"writing {docs} documents through spinney")
            first = str(work / "first")
            proxy, address = serve(spinney, [*options, "--data-dir", first], work)
            size = load(address, Texts().bulks(docs))
            ask(url, "POST", f"/{INDEX}/_refresh")
            proxy.terminate()
            proxy.wait()
            proxy = None
            before = inspect(spinney, first)
            for number in range(rounds):
                again = str(work / f"again-{number}")
                node = cpu(told["pid"])
                seconds, own, peak = recover(spinney, [*options, "--data-dir", again])
                node = cpu(told["pid"]) - node
                after = inspect(spinney, again)
                print(json.dumps({
                    "bench": "recover", "server": f"{told['kind']} {told['version']}", "method": "verified", "docs": docs,
                    "bytes_per_doc": round(size / docs), "seconds": round(seconds, 2), "docs_per_s": round(docs / seconds),
                    "cpu_s": round(own, 1), "server_cpu_s": round(node, 1), "peak_rss_mb": round(peak),
                    "nodes": after["nodes"], "roots": after["roots"],
                    "nodes_first": before["nodes"], "roots_first": before["roots"],
                }), flush=True)
    finally:
        if proxy:
            proxy.kill()


if __name__ == "__main__":
    main()
