"""scripts/bench recover: how long spinney recover takes to rebuild a forest from the index of a real OpenSearch node.

Needs Linux, Python 3 without anything else, and what scripts/search-server needs.
"""

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
INSTANCE, INDEX = "bench-recover", "news-bench"
BULK, IN_FLIGHT = 1000, 4
# Of 100 documents so many are reprints of an earlier one, as in scripts/bench bulk.
REPRINTS = 45


def die(text):
    sys.exit(f"bench: {text}")


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


class Texts:
    """Documents of 600 bytes to 2 KB, or of so many words: the same for the same seed."""

    def __init__(self, seed=11, reprints=REPRINTS, words=(100, 320)):
        self.random, self.reprints, self.lengths = random.Random(seed), reprints, words
        draw = lambda length: "".join(self.random.choice("etaoinshrdlucmfwypvbgkq") for _ in range(length))
        self.words = [draw(self.random.randint(2, 9)) for _ in range(30_000)]
        self.originals = []

    def next(self, number):
        pick = self.random
        if self.originals and pick.random() < self.reprints / 100:
            title, sentences = pick.choice(self.originals)
            sentences = sentences[: max(3, len(sentences) - pick.randint(0, 1))]
        else:
            # Words are not equally frequent.
            chosen = [self.words[int(30_000 * pick.random() ** 2)] for _ in range(pick.randint(*self.lengths))]
            sentences = [" ".join(chosen[at : at + 14]) for at in range(0, len(chosen), 14)]
            title = " ".join(chosen[:6])
            self.originals.append((title, sentences))
            if len(self.originals) > 2_000:
                self.originals.pop(0)
        content = ". ".join(sentences) + f". Published by paper {pick.randint(1, 300)}."
        return {"title": title, "content": content, "media": f"paper {number % 300}"}

    def bulks(self, docs):
        for first in range(0, docs, BULK):
            lines = []
            for number in range(first, min(first + BULK, docs)):
                lines += ['{"index":{}}', json.dumps(self.next(number))]
            yield ("\n".join(lines) + "\n").encode()


def load(address, bulks, index=INDEX, in_flight=IN_FLIGHT):
    """Sends bulks, several at a time, and answers their bytes. An item that fails ends the run."""
    lock, failed, sent = threading.Lock(), [], [0]

    def send():
        connection = http.client.HTTPConnection(address, timeout=600)
        while not failed:
            with lock:
                body = next(bulks, None)
            if body is None:
                break
            connection.request("POST", f"/{index}/_bulk", body, {"Content-Type": "application/x-ndjson"})
            answer = connection.getresponse().read()
            sent[0] += len(body)
            if b'"errors":false' not in answer[:200]:
                failed.append(answer[:2000])
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        die(f"a bulk failed: {failed[0]!r}")
    return sent[0]


def ask(url, method, path, body=None):
    request = urllib.request.Request(
        url + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.loads(answer.read())


def cpu(pid):
    """Processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve(spinney, options, work):
    """A spinney in front of the node, and its address."""
    command = [spinney, "serve", "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(work / "serve.log", "ab"), text=True)
    for line in process.stdout:
        if line.startswith("spinney is listening on "):
            return process, urlsplit(line.split()[-1]).netloc
    die(f"spinney did not start: {(work / 'serve.log').read_text()}")


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


def build():
    """The path of a release build."""
    say("building")
    if subprocess.run(["cargo", "build", "--quiet", "--release", "--locked"], cwd=ROOT).returncode:
        die("the build failed")
    told = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    return f"{json.loads(told)['target_directory']}/release/spinney"


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench recover")
    parser.add_argument("--docs", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    docs = args.docs or (20_000 if args.quick else 1_000_000)
    rounds = args.rounds or (1 if args.quick else 3)
    spinney = build()
    script = str(ROOT / "scripts/search-server")
    started = subprocess.run(
        [script, "start", "opensearch", "--instance", INSTANCE, "--heap", "2g"], stdout=subprocess.PIPE, text=True
    )
    if started.returncode:
        die("the server did not start")
    told = dict(line.split("=", 1) for line in started.stdout.splitlines())
    proxy = None
    try:
        with tempfile.TemporaryDirectory(prefix="spinney-recover-") as work:
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
        subprocess.run([script, "stop", INSTANCE], stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
