"""scripts/bench recover: how long spinney recover takes to rebuild a forest from the index of a real OpenSearch node.

Needs Linux, Python 3 without anything else, and what scripts/search-server needs.
"""

import json
import subprocess
import tempfile
import time
from pathlib import Path

import common
from common import INDEX, Load, Texts, ask, cpu, die, end, finish, say, search_server, tell

INSTANCE = "bench-recover"


def inspect(spinney, data_dir):
    told = subprocess.run([spinney, "inspect", "--json", data_dir], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(told)


def recover(spinney, options):
    """Seconds, user and system time, and peak memory of one recovery; its standard error passes on."""
    begun = time.monotonic()
    process = subprocess.Popen([spinney, "recover", *options], stdout=subprocess.PIPE)
    said = process.stdout.read().decode()
    used = finish(process)
    if process.returncode:
        die(f"spinney recover failed: {said}")
    say(said.strip())
    return time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def main():
    _, parse = common.arguments("recover", docs=(1_000_000, 20_000), rounds=(3, 1))
    args = parse()
    docs, spinney = args.docs, args.binary or common.build()
    with (
        search_server(INSTANCE, "--heap", "2g") as told,
        tempfile.TemporaryDirectory(prefix="spinney-recover-") as work,
    ):
        work, url = Path(work), told["url"]
        options, first = common.route(url, INDEX), str(work / "first")
        common.create_index(url, INDEX, common.NEWS | common.STAMP, refresh_interval="-1")
        say(f"writing {docs} documents through spinney")
        proxy, address = common.serve(spinney, [*options, "--data-dir", first], work)
        try:
            load = Load([address], Texts().bulks(docs))
            load.run()
            ask(url, "POST", f"/{INDEX}/_refresh")
        finally:
            end(proxy)
        before = inspect(spinney, first)
        for number in range(args.rounds):
            again = str(work / f"again-{number}")
            node = cpu(told["pid"])
            seconds, own, peak = recover(spinney, [*options, "--data-dir", again])
            node = cpu(told["pid"]) - node
            after = inspect(spinney, again)
            tell(
                bench="recover", server=f"{told['kind']} {told['version']}", method="verified", docs=docs,
                bytes_per_doc=round(load.bytes / docs), seconds=round(seconds, 2), docs_per_s=round(docs / seconds),
                cpu_s=round(own, 1), server_cpu_s=round(node, 1), peak_rss_mb=round(peak), nodes=after["nodes"],
                roots=after["roots"], nodes_first=before["nodes"], roots_first=before["roots"],
            )


if __name__ == "__main__":
    main()
