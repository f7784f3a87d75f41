"""scripts/soak: everything at once, for hours, while what it runs on is ended again and again.

`scripts/soak --help` says how.
"""

import argparse
import collections
import contextlib
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

import common
from common import PATIENCE, Away, Client, build, quantile, say, search_server, tell, until
from soak_documents import Documents
from soak_figures import Series, svg
from soak_load import Bypass, Editor, Janitor, Reader, Writer
from soak_oracle import Findings, Found, Oracle
from soak_servers import Node, Redis, Sidecar

HELP = """\
Runs a real OpenSearch, two spinneys and everything that is done with them, for hours, and ends one
of them every few minutes.

Beside each other: writers (new texts, editions of them, the same texts again; in bulks, at the same
moment through two requests, a thousand copies at once, 1 MB and more, with and without ids, some
refused), readers of groups, pages and state, overrides and their undoing, late merges, writes past
spinney, the sweep and backfills that stamp them, deletions. Documents are generated, at the limits of
every constant that is about documents. The window is two minutes (20 s in a run of less than 0.2 hours).

--store local: two spinneys with an index and a data directory each. --store redis: two that share a
forest on three masters with a replica each, and take documents of both indices. Every three minutes (of
a short run every fifth of it) spinney, the node or a Redis master is ended, by kill -9 or TERM, and
started again. In the second half the second spinney goes on all the time.

After each of these, while nobody writes:
  - every acknowledged document is there, once, with the text that was acknowledged (lost); one that was
    deleted or refused is not (bad)
  - documents of one text, written less than a window apart, have one root; texts that came lately are
    known, under the root that is stored; whatever was not written again and is in no override has the
    root that it had (split)
  - no document shows the loser of a merge; `spinney inspect` reads what is stored, and spinney starts
    with it (bad)
and in the end: every document has a stamp, the counts are those of an aggregation of the index and of
`spinney reconcile`, each group has one first document, spinney stops with exit code 0, and leaves no
point in time.

What was written within 3 s before a Redis master was lost may be in two: its replica may lack that.

Standard output has a JSON object a line. Of each sample: t_s, docs (acknowledged), kills, and by process
or in all
  rss_mb, files, threads      resident memory, descriptors and threads of the spinneys
  dir_mb                      size of the data directories
  redis_mb, redis_keys        memory and keys of the Redis masters
  nodes, points               nodes of the forests; points in time that are open on the node
  bulk_p50_ms, bulk_p99_ms    bulks that were answered the first time, since the sample before
The last line has
  hours, docs, kills          how long it ran, documents acknowledged, ends of spinney, the node or a master
  lost, split, bad            what was found, as said above; the first are told on standard error
  rss_mb_first, rss_mb_last   resident memory of the second spinney, median in the first and in the last
                              tenth of the second half
  bulk_p99_ms                 of all bulks that were answered the first time
  checked                     documents that were compared, in all checks
  growing                     figures that rise over the second half by more than they may (from 0.2
                              hours on; scripts/lib/soak_figures.py has by how much)

Exit code 1 if anything was lost, split, bad or growing: then logs and data directories stay, and the end
says where. history.log has the bulks, each attempt a JSON array in a line: when it was sent and answered,
by which thread, to which address and index, the status (0: no answer), action, n, id and text of each
document, and the status of each. It has 200 MB at most, and history.log.1 the 200 MB before. Ctrl-C ends
everything and prints the last line. Needs Linux, a JDK and Maven, and Redis 7 for --store redis; builds
spinney unless --binary names one.
"""

MAPPINGS = {
    "dynamic": False,
    "properties": {
        "n": {"type": "long"},
        "text": {"type": "keyword"},
        "medium": {"type": "keyword"},
        "title": {"type": "text"},
        "content": {"type": "text"},
        **common.STAMP,
    },
}


# The most bytes of the history; then a new one begins, and the one before is kept.
HISTORY = 200_000_000


class Soak:
    def __init__(self, args, binary, work, node, redis):
        self.args, self.seed, self.work, self.node, self.redis = args, args.seed, work, node, redis
        self.seconds, self.random = args.hours * 3600, random.Random(f"{args.seed}/kills")
        is_short = args.hours < 0.2
        self.window, self.pause = (20, 0.5) if is_short else (120, 1)
        self.copies, self.thousandfold, self.kept = 200 if is_short else 1000, 0.006, int(args.rate * 4 * self.window)
        self.documents, self.findings = Documents(args.seed), Findings(say)
        # What was found wrong can be read there.
        self.history = RotatingFileHandler(work / "history.log", maxBytes=HISTORY, backupCount=1, encoding="utf-8")
        self.over, self.changing, self.in_hand = threading.Event(), threading.Lock(), set()
        self.latencies, self.since_sample, self.series = [], [], Series()
        self.begun = time.monotonic()
        self.kills, self.disturbed = 0, time.monotonic()
        name = f"soak-{os.getpid()}-{int(time.time())}"
        self.indices = [f"{name}-1", f"{name}-2"]
        # In `local` a forest for each index.
        forest_of = {index: index if redis is None else "shared" for index in self.indices}
        self.forests = list({forest: index for index, forest in forest_of.items()}.values())
        self.oracle = Oracle(self.findings, self.documents, self.window * 1000, forest_of, self.has_boilerplate)
        self.sidecars = [self.sidecar(number, binary, redis) for number in (1, 2)]
        self.node_as_sidecar = Sidecar(0, binary, work, [], self.indices, None)
        self.node_as_sidecar.address = node.address
        self.node_as_sidecar.up.set()
        rate = args.rate / 4
        self.workers = [Writer(self, number, rate) for number in range(4)] + [
            Reader(self, number) for number in range(2)
        ]
        self.editor = Editor(self)
        self.workers += [self.editor, Bypass(self), Janitor(self)]
        self.sampler = threading.Thread(target=self.sample, daemon=True)

    def record(self, *write):
        """Puts a write into the history."""
        line = json.dumps(write, ensure_ascii=False)
        self.history.handle(logging.LogRecord("history", logging.INFO, "", 0, line, None, None))

    def sidecar(self, number, binary, redis):
        indices = [self.indices[number - 1]] if redis is None else self.indices
        data_dir = self.work / f"data-{number}" if redis is None else None
        options = [
            "--upstream",
            f"http://{self.node.address}",
            "--text-field",
            "content",
            "--title-field",
            "title",
            "--medium-field",
            "medium",
            "--window",
            f"{self.window}s",
            "--max-tree",
            "300",
            "--late-merges",
            "apply",
            "--founder-tokens-memory",
            "2MiB",
            "--sweep",
            f"{int(15 * self.pause)}s",
            "--log",
            "warn",
            *(["--forest-store", redis.url] if redis else ["--data-dir", str(data_dir)]),
        ]
        options += [word for index in indices for word in ("--index", index)]
        return Sidecar(number, binary, self.work, options, indices, data_dir)

    # ---- what workers ask ----

    def calm_since(self):
        """Since when nothing has been ended, if everything is as usual again; None: it is not."""
        disturbed = self.disturbed
        return disturbed if disturbed and time.monotonic() > disturbed + 12 * self.pause else None

    def took(self, seconds, documents):
        self.latencies.append(seconds)
        self.since_sample.append(seconds)

    def overrides(self, client, index):
        """All that stand; their roots are known from then on to be named by one."""
        listed, begin = [], 0
        while begin is not None:
            page = client.ask("GET", f"/_spinney/{index}/_overrides?size=1000&from={begin}")
            listed += page["overrides"]
            begin = page["next"]
        for one in listed:
            named = [one.get("winner"), one.get("root"), *one.get("losers", []), *one.get("roots", [])]
            self.oracle.touch(root for root in named if root)
        return listed

    # ---- ends ----

    @contextlib.contextmanager
    def disturbance(self, what):
        self.disturbed = None
        self.series.events.append((self.elapsed(), what))
        self.oracle.ended.append(time.time() * 1000)
        self.kills += 1
        self.tell({"event": what})
        try:
            yield
        finally:
            self.disturbed = time.monotonic()

    def end_spinney(self, sidecar, sign):
        with self.disturbance(f"{sign.name} of spinney {sidecar.number}"):
            if not sidecar.end(sign):
                self.findings.add(
                    "bad", f"spinney {sidecar.number} ended with {sidecar.process.returncode} after {sign.name}"
                )
            self.inspect(sidecar)
            sidecar.start()

    def inspect(self, sidecar):
        what = sidecar.data_dir or self.redis.url
        code, told = sidecar.command("inspect", str(what))
        if code != 0:
            self.findings.add("bad", f"inspect {what} ended with {code}: {told[-600:]}")

    def end_node(self, sign):
        with self.disturbance(f"{sign.name} of the node"):
            self.node.end(sign)
            for sidecar in self.sidecars:
                client = Client(sidecar.address)
                until(
                    lambda: client.send("GET", "/_spinney/_ready")[0] == 200,
                    f"spinney {sidecar.number} finds the node again",
                )

    def end_master(self, sign):
        with self.disturbance(f"{sign.name} of a Redis master"):
            at = self.redis.end_master(self.random, sign) * 1000
            self.oracle.lossy.append((at - 3000, at + 1000))

    def kinds(self, half):
        """What may be ended; in the second half the second spinney goes on."""
        for sign in (signal.SIGKILL, signal.SIGTERM):
            for sidecar in self.sidecars[: 2 if half == 0 else 1]:
                yield lambda s=sidecar, sign=sign: self.end_spinney(s, sign)
            if self.redis:
                yield lambda sign=sign: self.end_master(sign)
            if self.node.is_ours:
                yield lambda sign=sign: self.end_node(sign)

    # ---- checks ----

    @contextlib.contextmanager
    def rest(self):
        """All workers have done what they were at, and wait.

        The editor first: a document whose text nobody has written for a window stays where a merge has put it, if that
        is undone. So the writers go on until stored documents follow what the editor has said.
        """
        held = []

        def hold(worker):
            if not worker.turn.acquire(timeout=3 * PATIENCE):
                raise TimeoutError(f"{worker.name} does not come to an end")
            held.append(worker)

        try:
            hold(self.editor)
            said = set()
            until(lambda: said.update(self.unfollowed()) is None, "a spinney says which overrides are followed")
            until(lambda: not said.intersection(self.unfollowed()), "documents follow the editor", 4 * PATIENCE, 0.3)
            for worker in self.workers:
                if worker is not self.editor:
                    hold(worker)
            yield
        finally:
            for worker in held:
                worker.turn.release()

    def unfollowed(self):
        """Forests with the numbers of the overrides that stored documents may not follow yet."""
        asked = lambda index: Client(self.sidecar_of(index).address).ask("GET", f"/_spinney/{index}/_overrides")
        return [(index, number) for index in self.forests for number in asked(index)["restamping"]["overrides"]]

    def scan(self, client, index):
        """All documents of an index, page by page; a page without a part of them is no answer."""
        client.ask("POST", f"/{index}/_refresh")
        fields = ["n", "text", "cluster_root", "cluster_key", {"field": "cluster_arrival", "format": "epoch_millis"}]
        body = {"size": 5000, "_source": False, "docvalue_fields": fields, "query": {"range": {"n": {"gt": 0}}}}
        body |= {"sort": [{"n": "asc"}], "track_total_hits": True}
        found, total = [], None
        while total is None or len(found) < total:
            page = client.ask("POST", f"/{index}/_search?allow_partial_search_results=false", body)
            hits = page["hits"]["hits"]
            total = page["hits"]["total"]["value"] if total is None else total
            if not hits or page["timed_out"] or page["_shards"]["failed"]:
                # One that is there twice is left out where a page ends between the two.
                raise Away(f"{len(found)} of {total} documents of {index} were read: {str(page)[:300]}")
            found += (self.shown(index, hit) for hit in hits)
            body["search_after"] = hits[-1]["sort"]
        return found

    @staticmethod
    def shown(index, hit):
        value = {name: values[0] for name, values in hit["fields"].items()}
        n, text, root, key, arrival = map(value.get, ["n", "text", "cluster_root", "cluster_key", "cluster_arrival"])
        return Found(n, index, hit["_id"], text, root, key, None if arrival is None else int(arrival))

    def found(self, node):
        """All documents, and the losers of all merges by forest, when stored documents follow all overrides."""
        for _ in range(20):
            clients = [(Client(self.sidecar_of(index).address), index) for index in self.forests]
            standing = lambda: [self.overrides(client, index) for client, index in clients]
            until(lambda: not self.unfollowed(), "stored documents follow all overrides", 2 * PATIENCE, 0.3)
            try:
                before = standing()
                found = [shown for index in self.indices for shown in self.scan(node, index)]
            except Away as error:
                say(f"read again: {error}")
                time.sleep(2)
                continue
            # The sweep goes on, and a document of its may have two groups made one.
            if before == standing() and not self.unfollowed():
                merges = [(self.oracle.forest_of[index], one) for index, o in zip(self.forests, before) for one in o]
                return found, {
                    (of, loser) for of, one in merges if one["kind"] != "apart" for loser in one.get("losers", [])
                }
        raise TimeoutError("documents cannot be read, or overrides come faster")

    def check(self, stamped=False):
        with self.rest():
            node = Client(self.node.address)
            found, losers = self.found(node)
            found, now = list(self.oracle.dated(found)), time.time() * 1000
            for shown in self.oracle.young(self.random, found, now, 30):
                for sidecar in self.sidecars:
                    if shown.index in sidecar.indices:
                        self.is_known(sidecar, shown)
            self.are_forgotten()
            self.oracle.check(found, losers, stamped)
        self.progress()

    def sidecar_of(self, index):
        return next(sidecar for sidecar in self.sidecars if index in sidecar.indices)

    @staticmethod
    def asked(sidecar, index, fields):
        return Client(sidecar.address).ask("POST", f"/_spinney/{index}/_check", fields)

    def ask_of(self, sidecar, index, text):
        answer = self.asked(sidecar, index, self.documents.fields(text))
        return answer["decision"], answer["root"]

    def has_boilerplate(self, shown):
        """Whether a sentence of its text counts no more, because trees of many windows were founded with it. From then
        on others find the text than before. Asked with a sentence more, too: a text of nothing but boilerplate counts,
        and without it, too: the title is a sentence of a short text only."""
        fields = self.documents.fields(shown.text)
        more = ". Nobody else has written these words about the zebra of the lighthouse keeper."
        asked = (fields, fields | {"content": fields["content"] + more})
        sidecar = self.sidecar_of(shown.index)
        return any(self.asked(sidecar, shown.index, text)["boilerplate"] for text in asked)

    def is_known(self, sidecar, shown):
        decision, root = self.ask_of(sidecar, shown.index, shown.text)
        if (decision != "refreshed" or root != shown.root) and not self.has_boilerplate(shown):
            self.findings.add(
                "split", f"is not known to spinney {sidecar.number}, which says {decision}, {root}: {shown}"
            )

    def are_forgotten(self):
        """Texts of refused documents alone are known to nobody."""
        for text, index, at in list(self.oracle.refused)[-10:]:
            if self.oracle.may_stay(at):
                continue
            sidecar = self.sidecar_of(index)
            decision, root = self.ask_of(sidecar, index, text)
            if decision == "refreshed":
                self.findings.add(
                    "bad", f"a refused text is known to spinney {sidecar.number}: {text} in {index}, {root}"
                )

    def firsts_are_one(self, indices):
        """Each group of a forest has one first document."""
        node, told = Client(self.node.address), ""

        def holds():
            nonlocal told
            groups, wrong, after = 0, [], {}
            while after is not None:
                source = {"size": 5000, "sources": [{"key": {"terms": {"field": "cluster_key"}}}], **after}
                firsts = {"firsts": {"filter": {"term": {"cluster_first": True}}}}
                body = {"size": 0, "aggs": {"keys": {"composite": source, "aggs": firsts}}}
                keys = node.ask("POST", f"/{','.join(indices)}/_search", body)["aggregations"]["keys"]
                groups += len(keys["buckets"])
                wrong += [bucket["key"]["key"] for bucket in keys["buckets"] if bucket["firsts"]["doc_count"] != 1]
                after = {"after": keys["after_key"]} if "after_key" in keys else None
            told = f"{groups} groups, {len(wrong)} without one first document, such as {wrong[:3]}"
            return not wrong

        try:
            until(holds, "each group has one first document", 4 * PATIENCE, 1)
        except TimeoutError as error:
            self.findings.add("bad", f"{indices}: {error}: {told}")
        say(f"{','.join(indices)}: {told}")

    def counts_are_true(self, index):
        """The entries of the roots index are what the index says by itself, and `spinney reconcile` finds nothing."""
        node = Client(self.node.address)
        told = ""

        def holds():
            nonlocal told
            for name in (index, f"spinney-roots-{index}"):
                node.ask("POST", f"/{name}/_refresh")
            counted, after = collections.Counter(), {}
            while after is not None:
                source = {"size": 5000, "sources": [{"key": {"terms": {"field": "cluster_key"}}}], **after}
                answer = node.ask("POST", f"/{index}/_search", {"size": 0, "aggs": {"keys": {"composite": source}}})
                keys = answer["aggregations"]["keys"]
                counted.update({bucket["key"]["key"]: bucket["doc_count"] for bucket in keys["buckets"]})
                after = {"after": keys["after_key"]} if "after_key" in keys else None
            groups = {key: n for key, n in counted.items() if n > 1}
            body = {"size": 10_000, "query": {"match_all": {}}, "track_total_hits": True}
            hits = node.ask("POST", f"/spinney-roots-{index}/_search", body)["hits"]
            entries = {hit["_source"]["cluster_key"]: hit["_source"]["n"] for hit in hits["hits"]}
            wrong = {key for key in groups.keys() | entries.keys() if groups.get(key) != entries.get(key)}
            told = (
                f"{len(groups)} groups, {hits['total']['value']} entries, {len(wrong)} wrong, such as {list(wrong)[:3]}"
            )
            if wrong:
                return False
            code, said = self.sidecars[0].command(
                "reconcile", "--upstream", f"http://{self.node.address}", "--index", index, "--dry-run"
            )
            told = said
            return code == 0 and "0 missing, 0 wrong, 0 superfluous" in said

        try:
            until(holds, "counts are true", 2 * PATIENCE, 1)
        except TimeoutError as error:
            self.findings.add("bad", f"{index}: {error}: {told}")

    # ---- figures ----

    def elapsed(self):
        return round(time.monotonic() - self.begun, 1)

    def tell(self, line):
        tell(bench="soak", t_s=self.elapsed(), **line)

    def sample(self):
        node, before = Client(self.node.address, 10), (self.elapsed(), 0)
        every = min(10, max(1, self.seconds / 400))
        while not self.over.wait(every):
            of = [sidecar.figures() for sidecar in self.sidecars]
            line = {"t_s": self.elapsed(), "docs": self.oracle.acknowledged, "kills": self.kills}
            line |= {name: [figures.get(name) for figures in of] for name in ("rss_mb", "files", "threads")}
            if self.redis:
                line |= self.redis.figures()
            else:
                line["dir_mb"] = [sidecar.stored_mb() for sidecar in self.sidecars]
            nodes = []
            for sidecar in self.sidecars:
                with contextlib.suppress(Away):
                    stats = (
                        Client(sidecar.address, 10).ask("GET", "/_spinney/_stats")
                        if sidecar.up.is_set()
                        else {"forests": {}}
                    )
                    nodes.append(sum(forest["nodes"] for forest in stats["forests"].values()) or None)
            if len(nodes) == 2 and not self.redis:
                line["nodes"] = nodes
            if self.node.is_ours:
                with contextlib.suppress(Away):
                    points = self.points_in_time(node)
                    line["points"] = None if points is None else len(points)
            took, self.since_sample = self.since_sample, []
            if took:
                line |= {
                    "bulk_p50_ms": round(quantile(took, 0.5) * 1e3, 1),
                    "bulk_p99_ms": round(quantile(took, 0.99) * 1e3, 1),
                }
            line["docs_per_s"] = round((line["docs"] - before[1]) / max(0.1, line["t_s"] - before[0]), 1)
            before = line["t_s"], line["docs"]
            self.series.samples.append(line)
            tell(bench="soak", **line)

    def points_in_time(self, node):
        """Those that are open, if the node is ours alone; None: it does not say."""
        status, answer = node.send("GET", "/_search/point_in_time/_all") if self.node.is_ours else (404, b"")
        return json.loads(answer)["pits"] if status == 200 else [] if status == 404 else None

    def progress(self):
        counts, clock = self.findings.counts, lambda seconds: time.strftime("%H:%M:%S", time.gmtime(seconds))
        rss = "/".join(str(round(sidecar.figures().get("rss_mb", 0))) for sidecar in self.sidecars)
        say(
            f"{clock(self.elapsed())} of {clock(self.seconds)}: {self.oracle.acknowledged} documents, "
            f"{self.kills} ends, {self.oracle.checked} checked; lost {counts['lost']}, split {counts['split']}, "
            f"bad {counts['bad']}; RSS {rss} MB"
        )

    # ---- the whole ----

    def run(self):
        node = Client(self.node.address)
        for index in self.indices:
            settings = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "1s"}
            node.ask("PUT", f"/{index}", {"settings": settings, "mappings": MAPPINGS})
        for sidecar in self.sidecars:
            sidecar.start()
        self.begun = self.disturbed = time.monotonic()
        for thread in [*self.workers, self.sampler]:
            thread.start()
        every, queue = min(180, self.seconds / 5), []
        half = 0
        while self.elapsed() + every < self.seconds:
            time.sleep(every * 0.8)
            if not queue or half == 0 and self.elapsed() > 0.5 * self.seconds - every:
                half = int(self.elapsed() > 0.5 * self.seconds - every)
                queue = list(self.kinds(half))
                self.random.shuffle(queue)
            queue.pop()()
            time.sleep(min(10, every * 0.2))
            self.check()
        time.sleep(max(0, self.seconds - self.elapsed()))
        self.finish()

    def finish(self):
        """The end: a last kill of everything that is ours, all documents stamped, counts true, a clean stop."""
        self.over.set()
        for thread in [*self.workers, self.sampler]:
            thread.join(3 * PATIENCE)
        say("the load has ended: last checks")
        for sidecar in self.sidecars:
            self.end_spinney(sidecar, signal.SIGKILL)
        started = time.time() * 1000
        for index in self.indices:
            sidecar = self.sidecar_of(index)
            code, told = sidecar.command("backfill", "--index", index, "--spinney-url", f"http://{sidecar.address}")
            if code != 0:
                self.findings.add("bad", f"the last backfill ended with {code}: {told[-600:]}")
        self.check(stamped=True)
        for index in self.indices:
            self.counts_are_true(index)
        for forest in set(self.oracle.forest_of.values()):
            self.firsts_are_one([index for index in self.indices if self.oracle.forest_of[index] == forest])
        for sidecar in self.sidecars:
            if not sidecar.end(signal.SIGTERM):
                self.findings.add(
                    "bad", f"spinney {sidecar.number} ended with {sidecar.process.returncode} after SIGTERM"
                )
            self.inspect(sidecar)
            if "panicked" in sidecar.log.read_text(errors="replace"):
                self.findings.add("bad", f"spinney {sidecar.number} panicked: {sidecar.log}")
        # Those of a spinney that was killed stay until their time is over.
        left = [pit for pit in self.points_in_time(Client(self.node.address)) or [] if pit["creation_time"] > started]
        if left:
            self.findings.add("bad", f"points in time are left: {left}")

    def clean_up(self):
        # What fails from here on fails because everything is ended.
        self.findings.closed = True
        self.over.set()
        for sidecar in self.sidecars:
            sidecar.end(signal.SIGKILL)
        if not self.node.is_ours:
            with contextlib.suppress(Away):
                names = [name for index in self.indices for name in (index, f"spinney-roots-{index}")]
                Client(self.node.address).send("DELETE", f"/{','.join(names)}?ignore_unavailable=true")

    def summary(self, interrupted):
        since = self.seconds / 2
        growing = list(self.series.growing(since, 1)) if self.args.hours >= 0.2 and not interrupted else []
        rss = [value for _, value in self.series.of("rss_mb", 1, since)]
        tenth = max(1, len(rss) // 10)
        middle = lambda values: round(quantile(values, 0.5), 1) if values else None
        counts = self.findings.counts
        line = {
            "bench": "soak",
            "hours": round(self.elapsed() / 3600, 3),
            "docs": self.oracle.acknowledged,
            "kills": self.kills,
            "lost": counts["lost"],
            "split": counts["split"],
            "bad": counts["bad"],
            "rss_mb_first": middle(rss[:tenth]),
            "rss_mb_last": middle(rss[-tenth:]),
            "bulk_p99_ms": round(quantile(self.latencies, 0.99) * 1e3, 1) if self.latencies else None,
            "store": self.args.store,
            "seed": self.seed,
            "checked": self.oracle.checked,
            "growing": growing,
        }
        if interrupted:
            line["interrupted"] = True
        if self.args.svg and self.series.samples:
            title = f"scripts/soak --hours {self.args.hours:g} --store {self.args.store}: "
            title += f"{line['docs']} documents, {line['kills']} ends"
            Path(self.args.svg).write_text(svg(self.series, title))
        tell(**line)
        return not (sum(counts.values()) or growing)


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/soak", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--hours", type=float, default=2, help="how long, fractions allowed (2); the last checks come on top"
    )
    parser.add_argument("--quick", action="store_true", help="a minute: --hours 0.0167 --rate 20")
    parser.add_argument("--store", choices=["local", "redis"], default="local")
    parser.add_argument("--seed", type=int, default=1, help="of documents, of what is done and of what is ended (1)")
    parser.add_argument("--rate", type=float, help="documents a second of all writers, about (40)")
    parser.add_argument("--upstream", help="an OpenSearch that is there, instead of one of its own; it is not ended")
    parser.add_argument("--binary", help="a spinney that is built already")
    parser.add_argument("--svg", help="file for the figures over time")
    args = parser.parse_args()
    if args.quick:
        args.hours = 1 / 60
    args.rate = args.rate or (20 if args.quick else 40)
    if args.hours <= 0 or args.rate <= 0:
        parser.error("--hours and --rate are more than 0")
    return args


def main():
    args = arguments()
    binary = args.binary or build()
    work = Path(tempfile.mkdtemp(prefix="spinney-soak-"))
    name, soak, is_good, interrupted = f"soak-{os.getpid()}", None, False, False
    with contextlib.ExitStack() as stack:
        try:
            if args.upstream:
                node = Node({"url": args.upstream.rstrip("/")}, is_ours=False)
            else:
                node = Node(stack.enter_context(search_server(name, "--heap", "1g")))
            redis = None
            if args.store == "redis":
                told = stack.enter_context(common.redis_cluster(name, "--masters", "3", "--replicas", "1"))
                redis = Redis(told)
            soak = Soak(args, binary, work, node, redis)
            soak.run()
        except (KeyboardInterrupt, SystemExit) as end:
            interrupted = True
            say(f"interrupted: everything is ended {end}")
        except (OSError, Away) as error:
            # TimeoutError is one: what does not come is a finding, and nothing can go on.
            if soak is None:
                raise
            soak.findings.add("bad", f"given up: {error}")
        finally:
            if soak:
                soak.clean_up()
                is_good = soak.summary(interrupted)
                if not is_good:
                    for servers in (node, redis):
                        if servers and "log" in servers.told:
                            servers.keep_log(work)
    if is_good or soak is None:
        shutil.rmtree(work, ignore_errors=True)
    else:
        say(f"logs and data directories are in {work}")
    sys.exit(130 if interrupted else not is_good)
