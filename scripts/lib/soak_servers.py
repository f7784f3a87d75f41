"""What a soak runs on: spinneys, the search node and a Redis cluster, which it ends and starts again."""

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import common
from common import PATIENCE, REDIS_CLUSTER, SEARCH_SERVER, Client, free_port, redis_cli, until


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
            pid = self.process.pid
            return {
                "rss_mb": round(common.megabytes(pid, "VmRSS"), 1),
                "threads": int(common.status(pid)["Threads"]),
                "files": len(os.listdir(f"/proc/{pid}/fd")),
            }
        except (OSError, KeyError, AttributeError, TypeError):
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
        self.told |= common.lines(done.stdout)

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
            try:
                told = redis_cli(master, "INFO", "memory").splitlines()
                lines = dict(line.split(":", 1) for line in told if ":" in line)
                memory += int(lines["used_memory"])
                keys += int(redis_cli(master, "DBSIZE").split()[-1])
            except (KeyError, IndexError, ValueError, subprocess.SubprocessError):
                return {}
        return {"redis_mb": round(memory / 1e6, 2), "redis_keys": keys}
