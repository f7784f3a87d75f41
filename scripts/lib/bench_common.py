"""What the measurements of scripts/bench share: documents, a load, a spinney, a search server, quantiles."""

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
SEARCH_SERVER = str(ROOT / "scripts/search-server")
INDEX = "news-bench"
BULK, IN_FLIGHT = 1000, 4
# Of 100 documents so many are reprints of an earlier one, as in scripts/bench bulk.
REPRINTS = 45


# Ended by TERM, a measurement stops what it has started, as it does when it is ended by Ctrl-C.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


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


@contextlib.contextmanager
def instance(script, start, name):
    """What a script tells of the servers that its command `start` starts under this name; they are stopped at the end."""
    started = subprocess.Popen([script, *start], stdout=subprocess.PIPE, text=True)
    try:
        told, _ = started.communicate()
        if started.returncode:
            die(f"{Path(script).name} did not start {name}")
        yield dict(line.split("=", 1) for line in told.splitlines())
    finally:
        if started.poll() is None:
            # It removes what it has begun.
            started.terminate()
            started.wait()
        subprocess.run([script, "stop", name], stderr=subprocess.DEVNULL)


def search_server(name, *options, kind="opensearch"):
    """What scripts/search-server tells of a server of its own, which is stopped at the end."""
    return instance(SEARCH_SERVER, ["start", kind, "--instance", name, *options], name)


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]
