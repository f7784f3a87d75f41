"""What a soak runs on: spinneys, the search node and a Redis cluster, which it ends and starts again."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from bench_common import ROOT, SEARCH_SERVER

REDIS_CLUSTER = str(ROOT / "scripts/redis-cluster")
# A start, an end, an answer: what takes longer is stuck.
PATIENCE = 120
NDJSON, JSON = "application/x-ndjson", "application/json"


class Away(Exception):
    """No answer came: whether something was done is unknown."""


class Client:
    """One connection, kept open; of one thread."""

    def __init__(self, address, timeout=PATIENCE):
        self.address, self.timeout, self.connection = address, timeout, None

    def send(self, method, path, body=None, kind=JSON):
        """Status and body of the answer."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
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


def free_port():
    """Below the range of outgoing connections: one that was ended finds its port free."""
    for port in range(20_000 + os.getpid() * 7 % 9_000, 32_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise OSError("no port of 127.0.0.1 is free")


class Sidecar:
    """A spinney, on the same port and directory after each start."""

    def __init__(self, number, binary, work, options, indices, data_dir):
        self.number, self.binary, self.indices, self.data_dir = number, binary, indices, data_dir
        self.options, self.log = options, work / f"spinney-{number}.log"
        self.process, self.starts = None, 0
        # Set while writers may come.
        self.up = threading.Event()
        self.address = None

    def start(self):
        """Starts it and has the cluster accept a first write.

        What a writer sends before that is placed when it is stored: copies in two such requests may not see each other
        (docs/security.md).
        """
        self.address = self.address or f"127.0.0.1:{free_port()}"
        command = [self.binary, "serve", "--listen", self.address, *self.options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPINNEY_")}
        with open(self.log, "ab") as log:
            # A session of its own: Ctrl-C is for the soak, which ends it.
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        self.starts += 1
        client = Client(self.address)

        def is_ready():
            if self.process.poll() is not None:
                raise OSError(f"spinney {self.number} ended with {self.process.returncode} at its start: {self.tail()}")
            return client.send("GET", "/_spinney/_ready")[0] == 200

        until(is_ready, f"spinney {self.number} is ready: {self.tail()}")
        for index in self.indices:
            source = {
                "n": -self.number,
                "content": f"The first words of spinney {self.number} after start {self.starts}.",
            }
            path = f"/{index}/_doc/start-{self.number}-{self.starts}"
            until(
                lambda: client.send("PUT", path, source)[0] < 300, f"spinney {self.number} takes a document", pause=0.3
            )
        client.close()
        self.up.set()

    def end(self, sign):
        """Whether it ended as it should."""
        self.up.clear()
        if self.process is None or self.process.poll() is not None:
            return self.process is None
        self.process.send_signal(sign)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        return code == (-signal.SIGKILL if sign == signal.SIGKILL else 0)

    def command(self, *arguments, seconds=PATIENCE):
        """Exit code and output of another command of spinney."""
        try:
            done = subprocess.run(
                [self.binary, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=seconds,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            return None, str(error)
        return done.returncode, done.stdout

    def tail(self):
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""

    def figures(self):
        """Resident memory, descriptors and threads; nothing while it is not there."""
        try:
            proc = Path(f"/proc/{self.process.pid}")
            status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
            return {
                "rss_mb": round(int(status["VmRSS"].split()[0]) * 1024 / 1e6, 1),
                "threads": int(status["Threads"]),
                "files": len(os.listdir(proc / "fd")),
            }
        except (OSError, KeyError, AttributeError):
            return {}

    def stored_mb(self):
        files = [path for path in self.data_dir.rglob("*") if path.is_file()]
        total = 0
        for path in files:
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                pass
        return round(total / 1e6, 2)


class Script:
    """Servers of scripts/search-server or scripts/redis-cluster."""

    def __init__(self, script, told):
        self.script, self.told = script, told

    def run(self, command, *options):
        done = subprocess.run(
            [self.script, command, self.told["name"], *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=4 * PATIENCE,
        )
        if done.returncode:
            raise OSError(f"{Path(self.script).name} {command}: {done.stderr[-1000:]}")
        self.told |= dict(line.split("=", 1) for line in done.stdout.splitlines())

    def keep_log(self, folder):
        """Its log goes with the server."""
        try:
            shutil.copy(self.told["log"], folder / f"{Path(self.script).name}.log")
        except OSError:
            pass


class Node(Script):
    """The search node, ours or somebody's; only one of ours is ended."""

    def __init__(self, told, is_ours=True):
        super().__init__(SEARCH_SERVER, told)
        self.is_ours = is_ours
        self.address = told["url"].removeprefix("http://")

    def end(self, sign):
        if sign == signal.SIGKILL:
            self.run("kill")
        # It sends TERM to what still runs.
        self.run("restart")


class Redis(Script):
    """Three masters with a replica each."""

    def __init__(self, told):
        super().__init__(REDIS_CLUSTER, told)
        self.nodes = [url.rpartition("/")[2] for url in told["urls"].split(",")]
        self.url = "redis://" + ",".join(self.nodes)

    def end_master(self, pick, sign):
        """Ends a master, waits until its replica has its place, starts it again; when it was ended."""
        self.run("status")
        masters = self.told["masters"].split(",")
        ended = pick.choice(masters)
        number = self.nodes.index(ended) + 1
        at = time.time()
        if sign == signal.SIGKILL:
            self.run("kill", "--node", str(number))
        else:
            os.kill(int(self.told["pid"].split(",")[self.nodes.index(ended)]), sign)

        def replaced():
            self.run("status")
            now = self.told["masters"].split(",")
            return len(now) == len(masters) and ended not in now

        until(replaced, f"a replica has the place of {ended}", pause=0.5)
        self.run("restart", "--node", str(number))
        return at

    def figures(self):
        """Memory and keys of the masters."""
        memory = keys = 0
        for master in self.told["masters"].split(","):
            host, _, port = master.partition(":")
            ask = lambda *command: subprocess.run(
                ["redis-cli", "-h", host, "-p", port, *command],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                timeout=10,
            ).stdout
            try:
                lines = dict(line.split(":", 1) for line in ask("INFO", "memory").splitlines() if ":" in line)
                memory += int(lines["used_memory"])
                keys += int(ask("DBSIZE").split()[-1])
            except (KeyError, IndexError, ValueError, subprocess.TimeoutExpired):
                return {}
        return {"redis_mb": round(memory / 1e6, 2), "redis_keys": keys}
