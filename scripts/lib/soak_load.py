"""What a soak does at once: writers, readers, overrides, documents past spinney, backfill, deletions."""

import json
import random
import threading
import time
import urllib.parse

from common import NDJSON, Away, Client

# A write that is not taken for so long, in seconds, is never taken.
STUCK = 240
# Overrides that stand at once; more are undone.
STANDING = 20


class Worker(threading.Thread):
    """Does one thing after the other, each under its lock: who holds all locks has the soak at rest."""

    def __init__(self, soak, name, pause):
        super().__init__(name=name, daemon=True)
        self.soak, self.pause, self.random = soak, pause, random.Random(f"{soak.seed}/{name}")
        self.turn, self.kept, self.clients = threading.Lock(), 0, {}

    def run(self):
        while not self.soak.over.wait(self.pause * self.random.uniform(0.5, 1.5)):
            with self.turn:
                if self.soak.over.is_set():
                    return
                try:
                    self.step()
                except Away:
                    # Whoever goes on says what that means; here nothing was promised.
                    pass
                except Exception as error:
                    self.soak.findings.add("bad", f"{self.name} failed: {error!r}")

    def step(self):
        raise NotImplementedError

    def client(self, sidecar):
        """A connection, another one after each end of anything."""
        if self.kept != self.soak.kills:
            self.kept, self.clients = self.soak.kills, {}
        return self.clients.setdefault(sidecar.address, Client(sidecar.address))

    def sidecar(self, index):
        """One that takes this index, once it is up."""
        chosen = self.random.choice([s for s in self.soak.sidecars if index in s.indices])
        chosen.up.wait(STUCK)
        return chosen


class Operation:
    """One item of a bulk, and the text that its document has afterwards (None: none)."""

    def __init__(self, action, record, text, source=None):
        self.action, self.record, self.text, self.source = action, record, text, source

    def lines(self):
        target = {"_index": self.record.index} | ({"_id": self.record.id} if self.record.id else {})
        yield json.dumps({self.action: target})
        if self.action == "update":
            yield json.dumps({"doc": self.source, "doc_as_upsert": True}, ensure_ascii=False)
        elif self.action != "delete":
            yield json.dumps(self.source, ensure_ascii=False)


class Writer(Worker):
    def __init__(self, soak, number, rate):
        super().__init__(soak, f"writer-{number}", 0)
        self.rate = rate

    def step(self):
        index = self.random.choice(self.soak.indices)
        drawn = self.random.random()
        if drawn < self.soak.thousandfold:
            operations = self.thousandfold(index)
        elif drawn < self.soak.thousandfold * 2:
            operations = [self.document(index, f"L{self.random.randint(1, 1 << 30)}")]
        elif drawn < 0.08:
            operations = self.same_moment(index)
        else:
            operations = [self.operation(index) for _ in range(self.random.choice([1, 1, 2, 5, 15, 16, 17, 40]))]
        if operations:
            self.write(self.sidecar(index), index, operations)
        self.rest(len(operations) or 2)

    def rest(self, count):
        """Keeps the rate of all writers, in documents a second; not under the lock."""
        self.pause = min(10, count / self.rate)

    # ---- what is written ----

    def source(self, record, text):
        return {"n": record.n, "text": text, "medium": f"paper {record.n % 30}", **self.soak.documents.fields(text)}

    def text(self, index):
        """A new text, an edition of a known one, or a known one."""
        drawn, known = self.random.random(), self.soak.oracle.pick(self.random, index)
        if drawn < 0.35 or known is None:
            return f"{self.random.randint(1, 1 << 40)}{'/untitled' if drawn < 0.01 else ''}"
        return known if drawn < 0.7 else self.soak.documents.edition(self.random, known)

    def document(self, index, text, action="index", id=None):
        record = self.soak.oracle.new(index, id)
        return Operation(action, record, text, self.source(record, text))

    def operation(self, index):
        drawn = self.random.random()
        if drawn < 0.7:
            return self.document(index, self.text(index))
        if drawn < 0.78:
            # The cluster makes up the id.
            return self.document(index, self.text(index), id="")
        if drawn < 0.83:
            return self.document(index, self.text(index), "create")
        if drawn < 0.87:
            return self.document(index, self.text(index), "update")
        if drawn < 0.9:
            # The cluster refuses it: its text is known to nobody afterwards.
            operation = self.document(index, f"A{self.random.randint(1, 1 << 40)}")
            operation.source["n"] = "no number"
            operation.text = None
            return operation
        return self.change(index) or self.document(index, self.text(index))

    def change(self, index):
        """Writes a document again, with another text or the same; each document is in one writer's hands at a time."""
        with self.soak.changing:
            record = self.soak.oracle.some(self.random, index)
            if record is None or record.n in self.soak.in_hand:
                return None
            self.soak.in_hand.add(record.n)
        text = self.text(index)
        return Operation(self.random.choice(["index", "update"]), record, text, self.source(record, text))

    def thousandfold(self, index):
        text = self.text(index)
        if len(self.soak.documents.text(text)[1]) > 10_000:
            # The cluster takes no more than 100 MB at once.
            text = f"A{self.random.randint(1, 1 << 40)}"
        return [self.document(index, text) for _ in range(self.soak.copies)]

    def same_moment(self, index):
        """A new text, sent in two requests at the same moment, through two processes where they share a forest."""
        text, to = str(self.random.randint(1, 1 << 40)), [s for s in self.soak.sidecars if index in s.indices]
        for sidecar in to:
            sidecar.up.wait(STUCK)
        both = threading.Barrier(2)
        send = [(to[0], [self.document(index, text)]), (to[-1], [self.document(index, text)])]

        def at_once(sidecar, operations):
            both.wait(STUCK)
            self.write(sidecar, index, operations, Client(sidecar.address))

        other = threading.Thread(target=at_once, args=send[1], daemon=True)
        other.start()
        at_once(*send[0])
        other.join(STUCK)
        return []

    # ---- until it is known what has become of it ----

    def write(self, sidecar, index, operations, client=None):
        numbers = {operation.record.n for operation in operations}
        end, first = time.monotonic() + STUCK, True
        try:
            while operations:
                if time.monotonic() > end or self.soak.over.is_set():
                    for operation in operations:
                        self.soak.oracle.unknown(operation.record, operation.text)
                    if not self.soak.over.is_set():
                        self.soak.findings.add("bad", f"{sidecar.address} did not take a write for {STUCK} s")
                    return
                operations = self.attempt(client or self.client(sidecar), sidecar, index, operations, first)
                if operations:
                    first = False
                    time.sleep(0.3)
                    sidecar.up.wait(STUCK)
        finally:
            with self.soak.changing:
                self.soak.in_hand -= numbers

    def attempt(self, client, sidecar, index, operations, first):
        """Sends it; the operations that are to be sent again."""
        oracle, body = self.soak.oracle, "\n".join(line for o in operations for line in o.lines()) + "\n"
        for operation in operations:
            oracle.unknown(operation.record, operation.text)
        begun, calm, sent = time.monotonic(), self.soak.calm_since(), time.time()
        try:
            status, answer = client.send("POST", f"/{index}/_bulk", body.encode(), NDJSON)
            items = json.loads(answer)["items"] if status == 200 else None
        except (Away, ValueError, KeyError) as error:
            items, status, answer = None, 0, repr(error).encode()
        each = [(o.action, o.record.n, o.record.id, o.text) for o in operations]
        statuses = [of["status"] for item in items or [] for of in item.values()]
        self.soak.record(sent, time.time(), self.name, sidecar.address, index, status, each, statuses)
        if items is None:
            if status in (400, 500) or calm is not None and calm == self.soak.calm_since():
                self.soak.findings.add(
                    "bad", f"a bulk to {sidecar.address}: {status} {answer[:600].decode(errors='replace')}"
                )
            # One without an id would be there twice.
            return [operation for operation in operations if operation.record.id]
        if first:
            self.soak.took(time.monotonic() - begun, len(operations))
        again = []
        for operation, item in zip(operations, items, strict=True):
            item = item[operation.action]
            status = item["status"]
            is_there = status == 409 and operation.action == "create" and not first
            if status in (200, 201) or is_there or status == 404 and operation.action == "delete":
                oracle.acknowledge(operation.record, operation.text)
                if operation.record.id is None:
                    operation.record.id = item["_id"]
            elif status == 400 and operation.source and operation.source["n"] == "no number":
                # What an attempt without an answer has left stays a minute, and the next one does not take it back.
                if first:
                    oracle.refused.append((operation.source["text"], operation.record.index, time.time() * 1000))
            elif status in (429, 503) or status == 409 and operation.action == "update":
                # An update is refused if something else, such as a restamp, came between its reading and its writing.
                again.append(operation)
            else:
                self.soak.findings.add("bad", f"an item was answered {item}")
        return again


class Janitor(Writer):
    """Deletes what is old, so that the index does not grow; by id, or by a query and then by id."""

    def __init__(self, soak):
        super().__init__(soak, "janitor", 1)

    def step(self):
        self.pause = 2
        old = self.soak.oracle.oldest(800, self.soak.kept)
        with self.soak.changing:
            old = [record for record in old if record.n not in self.soak.in_hand]
            self.soak.in_hand |= {record.n for record in old}
        for index in self.soak.indices:
            records = [record for record in old if record.index == index]
            if not records:
                continue
            sidecar = self.sidecar(index)
            if self.random.random() < 0.3:
                for record in records:
                    self.soak.oracle.unknown(record, None)
                query = {"query": {"terms": {"n": [record.n for record in records]}}}
                try:
                    self.client(sidecar).send("POST", f"/{index}/_delete_by_query?conflicts=proceed", query)
                except Away:
                    pass
            self.write(sidecar, index, [Operation("delete", record, None) for record in records])


class Reader(Worker):
    """Asks for groups, similar documents and pages; what was answered is looked at."""

    def __init__(self, soak, number):
        super().__init__(soak, f"reader-{number}", soak.pause)

    def step(self):
        index = self.random.choice(self.soak.indices)
        client = self.client(self.sidecar(index))
        ask = lambda method, path, body=None: self.ask(client, method, path, body)
        count = {"sort": {"similar_count": self.random.choice(["asc", "desc"])}, "size": 20, "_source": ["n"]}
        query = {"query": {"term": {"medium": f"paper {self.random.randint(0, 29)}"}}}
        question = self.random.choice(
            [
                count,
                count | query,
                query | {"sort": "_score"},
                query | {"sort": "matching_count"},
                count | {"exact": True},
            ]
        )
        page = ask("POST", f"/_spinney/{index}/_groups", question)
        groups = page["groups"] if page else []
        if len({group["root"] for group in groups}) < len(groups):
            self.soak.findings.add("bad", f"a group is twice on a page: {question}: {groups}")
        if page and page["next"]:
            ask("POST", f"/_spinney/{index}/_groups", question | {"cursor": page["next"]})
        for group in groups[:3]:
            id = urllib.parse.quote(group["representative"]["_id"])
            ask("GET", f"/_spinney/{index}/_similar/{id}?size=5&_source=n")
            ask("GET", f"/_spinney/{index}/_roots/{group['root']}?size=5&_source=n")
            ask("GET", f"/_spinney/ui/{index}/group/{group['root']}")
        text = self.soak.oracle.pick(self.random, index)
        if text and not text.startswith("L"):
            ask("POST", f"/_spinney/{index}/_check", self.soak.documents.fields(text))
        for path in [
            "/_spinney/_stats",
            "/_spinney/_metrics",
            f"/_spinney/ui/{index}",
            "/_spinney/ui/overview",
            f"/{index}/_count",
            f"/_spinney/{index}/_overrides",
            f"/_spinney/{index}/_merges",
        ]:
            if self.random.random() < 0.3:
                ask("GET", path)

    def ask(self, client, method, path, body):
        """The JSON of an answer, if there is one."""
        calm = self.soak.calm_since()
        status, answer = client.send(method, path, body)
        # Documents come and go.
        if status >= 400 and status != 404:
            if status == 500 or calm is not None and calm == self.soak.calm_since():
                self.soak.findings.add(
                    "bad", f"{method} {path} {body}: {status} {answer[:600].decode(errors='replace')}"
                )
        return json.loads(answer) if status == 200 and answer[:1] == b"{" else None


class Editor(Worker):
    """Merges, splits and pins groups, and undoes it."""

    def __init__(self, soak):
        super().__init__(soak, "editor", 3 * soak.pause)
        # What an override has named, by its forest and number.
        self.named = {}

    def say(self, index, method, path, body=None):
        """Asks for it. The folder that stays if anything is wrong has what was asked, and when."""
        status, answer = None, b""
        try:
            status, answer = self.client(self.sidecar(index)).send(method, f"/_spinney/{index}/{path}", body)
            return status, answer
        finally:
            said = [time.time(), status, method, index, path, body, answer[:200].decode(errors="replace")]
            with open(self.soak.work / "editor.log", "a", encoding="utf-8") as log:
                print(json.dumps(said), file=log)

    def undo(self, index, override):
        number, forest = override["override"], self.soak.oracle.forest_of[index]
        named = self.named.get((forest, number), set())
        named |= {override.get("winner"), override.get("root"), *override.get("losers", [])}
        self.soak.oracle.undo(named)
        self.say(index, "DELETE", f"_overrides/{number}")

    def step(self):
        index = self.random.choice(self.soak.indices)
        client = self.client(self.sidecar(index))
        standing = self.soak.overrides(client, index)
        ours = [o for o in standing if o["kind"] in ("merge", "pin")]
        if len(ours) > STANDING or ours and self.random.random() < 0.3:
            self.undo(index, self.random.choice(ours))
            return
        query = {"bool": {"filter": [{"exists": {"field": "cluster_root"}}, {"range": {"n": {"gt": 0}}}]}}
        body = {"size": 60, "sort": [{"n": "desc"}], "_source": ["cluster_root", "text"], "query": query}
        hits = client.ask("POST", f"/{index}/_search", body)["hits"]["hits"]
        roots = {hit["_source"]["cluster_root"]: hit for hit in hits}
        if len(roots) < 3:
            return
        one, two, three = self.random.sample(sorted(roots), 3)
        path, body = self.random.choice(
            [
                ("_merge", {"roots": [one, two]}),
                ("_merge", {"roots": [one, two, three]}),
                ("_split", {"ids": [roots[one]["_id"]]}),
                ("_pin", {"ids": [roots[one]["_id"]], "root": two}),
            ]
        )
        named = [one, two, three, roots[one]["_source"]["text"]]
        self.soak.oracle.touch(named)
        status, answer = self.say(index, "POST", path, body)
        if status == 200:
            said = json.loads(answer)
            self.soak.oracle.touch([said["root"]])
            self.named[self.soak.oracle.forest_of[index], said["override"]] = {*named, said["root"]}
        # A document without a text, or its root, is no group.
        elif status not in (404, 429, 502, 503, 504) and b"without" not in answer:
            self.soak.findings.add("bad", f"{path} {body}: {status} {answer[:600].decode(errors='replace')}")


class Bypass(Writer):
    """Writes past spinney: the sweep, and now and then a backfill, stamp it."""

    def __init__(self, soak):
        super().__init__(soak, "bypass", 1)
        self.backfill_at = time.monotonic() + soak.pause * 30

    def step(self):
        self.pause = 10 * self.soak.pause
        index = self.random.choice(self.soak.indices)
        operations = []
        for _ in range(self.random.randint(1, 20)):
            operation = self.document(index, self.text(index))
            operation.record.bypass = True
            operations.append(operation)
        # Whether they were stored is asked of the node.
        self.write(self.soak.node_as_sidecar, index, operations)
        if time.monotonic() > self.backfill_at:
            self.backfill_at = time.monotonic() + 30 * self.soak.pause
            self.backfill(index)

    def backfill(self, index):
        sidecar, calm = self.sidecar(index), self.soak.calm_since()
        code, told = sidecar.command("backfill", "--index", index, "--spinney-url", f"http://{sidecar.address}")
        if code not in (0, 3) and calm is not None and calm == self.soak.calm_since():
            self.soak.findings.add("bad", f"backfill ended with {code}: {told[-600:]}")
