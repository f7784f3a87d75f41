"""What the scripts in Python share: requests, bulks, documents, spinneys, servers of our own, quantiles."""

import argparse
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
SEARCH_SERVER, REDIS_CLUSTER = str(ROOT / "scripts/search-server"), str(ROOT / "scripts/redis-cluster")
INDEX = "news-bench"
BULK, IN_FLIGHT = 1000, 4
# Of 100 documents so many are reprints of an earlier one, as in scripts/bench bulk.
REPRINTS = 45
# An answer that takes longer, in seconds, does not come.
PATIENCE = 120
JSON, NDJSON = "application/json", "application/x-ndjson"
# Messages begin with the name of the script; those of scripts/bench are in several programs.
NAME = {"soak": "soak", "adopting": "adopting"}.get(Path(sys.argv[0]).name, "bench")


# Ended by TERM, a script stops what it has started, as it does when it is ended by Ctrl-C.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def die(text):
    sys.exit(f"{NAME}: {text}")


def say(text):
    print(f"{NAME}: {text}", file=sys.stderr, flush=True)


def tell(**figures):
    """Prints a line of the output."""
    print(json.dumps(figures, ensure_ascii=False), flush=True)


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


# ---- requests ----


class Away(Exception):
    """No good answer came: whether something was done may be unknown."""


class Client:
    """One connection, kept open; of one thread."""

    def __init__(self, address, timeout=PATIENCE):
        self.address, self.timeout, self.connection = address.removeprefix("http://"), timeout, None

    def send(self, method, path, body=None, kind=JSON):
        """Status and body of the answer."""
        if body is not None and not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.address, timeout=self.timeout)
            self.connection.request(method, path, body, {"Content-Type": kind} if body is not None else {})
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Away(f"{method} {path.partition('?')[0]}: {error!r}") from error

    def ask(self, method, path, body=None, kind=JSON):
        """The JSON of an answer that has to be good."""
        status, answer = self.send(method, path, body, kind)
        if status >= 300:
            raise Away(f"{method} {path}: {status} {answer[:500].decode(errors='replace')}")
        return json.loads(answer)

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


def ask(url, method, path, body=None, kind=JSON):
    """The JSON of a good answer, by a connection of its own."""
    client = Client(url, 600)
    try:
        return client.ask(method, path, body, kind)
    finally:
        client.close()


def until(holds, what, seconds=PATIENCE, pause=0.1):
    """Waits for a condition; no answer is one that does not hold."""
    end, last = time.monotonic() + seconds, None
    while True:
        try:
            if holds():
                return
        except Away as error:
            last = error
        if time.monotonic() > end:
            raise TimeoutError(f"not after {seconds} s: {what}" + (f" ({last})" if last else ""))
        time.sleep(pause)


# ---- documents and bulks ----


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
            yield bulk((None, self.next(number)) for number in range(first, min(first + BULK, docs)))


def bulk(documents):
    """The body of a bulk, of ids (None: the cluster makes one) and documents."""
    lines = []
    for id, document in documents:
        lines += [json.dumps({"index": {} if id is None else {"_id": str(id)}}), json.dumps(document)]
    return ("\n".join(lines) + "\n").encode()


def send_bulk(client, body, index=INDEX):
    """Sends a bulk none of whose items may fail; what is wrong, if something is."""
    status, answer = client.send("POST", f"/{index}/_bulk", body, NDJSON)
    return None if status < 300 and b'"errors":false' in answer[:200] else answer[:2000]


class Load:
    """Sends bulks, several at a time, the senders to the addresses in turn; as fast as they are taken, or at a rate in
    documents a second. An item that fails ends the run."""

    def __init__(self, addresses, bulks, index=INDEX, in_flight=IN_FLIGHT, rate=None):
        self.addresses, self.bulks, self.index, self.in_flight = addresses, iter(bulks), index, in_flight
        self.rate, self.lock, self.failed = rate, threading.Lock(), None
        # Bulks and bytes that were sent, and how long each bulk took.
        self.sent, self.bytes, self.took = 0, 0, []

    def send(self, address):
        client = Client(address, 600)
        while not self.failed:
            with self.lock:
                body, number = next(self.bulks, None), self.sent
                if body is None:
                    break
                self.sent += 1
                self.bytes += len(body)
            if self.rate:
                time.sleep(max(0, self.begun + number * BULK / self.rate - time.monotonic()))
            begun = time.monotonic()
            try:
                self.failed = send_bulk(client, body, self.index) or self.failed
            except Away as error:
                self.failed = error
            self.took.append(time.monotonic() - begun)
        client.close()

    def run(self, watch=None):
        """Seconds that it took; `watch` is called four times a second meanwhile."""
        self.begun = time.monotonic()
        to = [self.addresses[at % len(self.addresses)] for at in range(self.in_flight)]
        threads = [threading.Thread(target=self.send, args=(address,)) for address in to]
        for thread in threads:
            thread.start()
        while watch and any(thread.is_alive() for thread in threads):
            watch()
            time.sleep(0.25)
        for thread in threads:
            thread.join()
        if self.failed:
            die(f"a bulk failed: {self.failed!r}")
        return time.monotonic() - self.begun


# The fields of a stamp, as spinney setup maps them.
STAMP = {"cluster_root": {"type": "keyword"}, "cluster_key": {"type": "long"}, "cluster_arrival": {"type": "date"},
         "cluster_first": {"type": "boolean"}}
# Those of the documents above.
NEWS = {"title": {"type": "text"}, "content": {"type": "text"}, "media": {"type": "keyword"}}


def create_index(url, index, properties, **settings):
    """A fresh index with one shard and no copies."""
    Client(url).send("DELETE", f"/{index}")
    ask(url, "PUT", f"/{index}", {
        "settings": {"number_of_shards": 1, "number_of_replicas": 0, **settings},
        "mappings": {"properties": properties},
    })


# ---- processes ----


def cpu(pid):
    """Processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(pid):
    """The lines of /proc/PID/status by their names; none after the end of the process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return dict(line.split(":", 1) for line in lines)


def megabytes(pid, name):
    """Memory of a process, VmRSS or VmHWM; None after its end."""
    found = status(pid).get(name)
    return found and int(found.split()[0]) * 1024 / 1e6


def finish(process):
    """Waits for a process and answers its resources; `returncode` is set."""
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    return used


def serve(spinney, options, work):
    """A spinney in front of the node, and its address."""
    command = [spinney, "serve", "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(work / "serve.log", "ab"), text=True)
    for line in process.stdout:
        if line.startswith("spinney is listening on "):
            return process, urlsplit(line.split()[-1]).netloc
    die(f"spinney did not start: {(work / 'serve.log').read_text()}")


def end(*processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def route(url, index):
    """The options of a spinney for the documents above."""
    return ["--upstream", url, "--index", index, "--text-field", "content", "--title-field", "title"]


def counts(spinney):
    """What counting in the background says of itself."""
    return ask(spinney, "GET", "/_spinney/_stats")["counts"]


def has_counted(figures):
    waits = figures["lag_s"] or figures["reconciling"] or figures["unscanned"]
    return figures["reconciled"] > 0 and not waits


def counts_are_true(binary, url, index=INDEX):
    """Ends the run unless every entry is as a comparison of the whole index finds it."""
    ask(url, "POST", f"/{index},spinney-roots-{index}/_refresh")
    told = subprocess.run(
        [binary, "reconcile", "--upstream", url, "--index", index, "--dry-run"],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout
    if "0 missing, 0 wrong, 0 superfluous" not in told:
        die(f"the order is not true: {told}")


# ---- programs ----


def target_directory():
    told = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    return Path(json.loads(told)["target_directory"])


def build():
    """The path of a release build."""
    say("building")
    if subprocess.run(["cargo", "build", "--quiet", "--release", "--locked"], cwd=ROOT).returncode:
        die("the build failed")
    return f"{target_directory()}/release/spinney"


def peer_python(name):
    """A Python with the libraries of benches/peers/NAME.txt, installed into .cache/peers; None where that cannot be."""
    home, wanted = ROOT / ".cache/peers" / name, ROOT / "benches/peers" / f"{name}.txt"
    python, mark = home / "bin/python", home / "installed"
    if not mark.exists() or mark.read_text() != wanted.read_text():
        say(f"installing {name} into {home}")
        made = subprocess.run(["python3", "-m", "venv", "--clear", str(home)]).returncode == 0 and subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", str(wanted)],
            stdout=subprocess.DEVNULL).returncode == 0
        if not made:
            say(f"{name} could not be installed (no venv module, or no package index): it is left out")
            return None
        mark.write_text(wanted.read_text())
    return str(python)


def arguments(bench, docs, rounds=None):
    """The options that measurements have in common: documents of a usual run and a quick one, and rounds."""
    parser = argparse.ArgumentParser(prog=f"scripts/bench {bench}")
    parser.add_argument("--docs", type=int)
    if rounds:
        parser.add_argument("--rounds", type=int)
    parser.add_argument("--binary", help="a spinney that is built already")
    parser.add_argument("--quick", action="store_true")

    def parse():
        args = parser.parse_args()
        args.docs = args.docs or docs[args.quick]
        if args.docs % BULK:
            parser.error(f"--docs must be a multiple of {BULK}")
        if rounds:
            args.rounds = args.rounds or rounds[args.quick]
        return args

    return parser, parse


# ---- servers ----


def lines(told):
    """What search-server and redis-cluster print: lines NAME=VALUE."""
    return dict(line.split("=", 1) for line in told.splitlines())


def free_port():
    """Below the range of outgoing connections: what was ended finds its port free."""
    for port in range(20_000 + os.getpid() * 7 % 9_000, 32_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise OSError("no port of 127.0.0.1 is free")


@contextlib.contextmanager
def instance(script, start, name):
    """What a script tells of the servers that its command `start` starts under this name; they are stopped at the
    end."""
    started = subprocess.Popen([script, *start], stdout=subprocess.PIPE, text=True)
    try:
        told, _ = started.communicate()
        if started.returncode:
            die(f"{Path(script).name} did not start {name}")
        yield lines(told)
    finally:
        if started.poll() is None:
            # It removes what it has begun.
            started.terminate()
            started.wait()
        subprocess.run([script, "stop", name], stderr=subprocess.DEVNULL)


def search_server(name, *options, kind="opensearch"):
    """What scripts/search-server tells of a server of its own, which is stopped at the end."""
    return instance(SEARCH_SERVER, ["start", kind, "--instance", name, *options], name)


def redis_cluster(name, *options):
    """The same of scripts/redis-cluster."""
    return instance(REDIS_CLUSTER, ["start", name, *options], name)


def redis_cli(address, *command):
    """What a Redis answers to a command."""
    host, _, port = address.partition(":")
    return subprocess.run(
        ["redis-cli", "-h", host, "-p", port, *command], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    ).stdout
