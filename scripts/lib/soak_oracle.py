"""What a soak knows of its documents: what was acknowledged, and whether the index shows it."""

import collections
import itertools
import threading
import time

# Findings of a kind that are told in words; all are counted.
TOLD = 15


class Record:
    """A document: which texts it may have (None: it may not be there), and when, in milliseconds, it was last sent
    (`tried`), and when last with an answer that it is accepted (`taken`)."""

    __slots__ = ("n", "index", "id", "texts", "bypass", "tried", "taken")

    def __init__(self, n, index, id, bypass=False):
        self.n, self.index, self.id, self.texts, self.bypass = n, index, id, {None}, bypass
        self.tried = self.taken = 0


# What the index shows of a document.
Found = collections.namedtuple("Found", "n index id text root key arrival")


class Findings:
    """What is wrong, counted by kind: `lost`, `split` or `bad`."""

    def __init__(self, say):
        self.say, self.lock = say, threading.Lock()
        self.counts, self.closed = collections.Counter(), False

    def add(self, kind, text):
        with self.lock:
            if self.closed:
                return
            self.counts[kind] += 1
            if self.counts[kind] <= TOLD:
                self.say(f"{kind.upper()}: {text}")


class Oracle:
    def __init__(self, findings, documents, window_ms, forest_of, has_boilerplate):
        """`forest_of`: by index, what tells forests apart; `has_boilerplate`: whether spinney says so of a document."""
        self.findings, self.documents, self.window, self.forest_of = findings, documents, window_ms, forest_of
        self.has_boilerplate = has_boilerplate
        self.lock, self.numbers = threading.Lock(), itertools.count(1)
        self.records = {}
        self.acknowledged = 0
        # (text, index) of accepted documents, youngest last; (text, index, time) of refused ones.
        self.recent = collections.deque(maxlen=20_000)
        self.refused = collections.deque(maxlen=50)
        # Roots, and texts, that an override has named: documents move to and from them.
        self.touched = set()
        # (time, what its override named) of each undoing; times at which something was ended.
        self.undone, self.ended = [], []
        # Times around the loss of a Redis master: what was written then a replica may lack.
        self.lossy = []
        self.before, self.checked = {}, 0

    # ---- writers ----

    def new(self, index, id=None, bypass=False):
        with self.lock:
            n = next(self.numbers)
            record = self.records[n] = Record(n, index, f"d{n}" if id is None else id or None, bypass)
        return record

    def acknowledge(self, record, text):
        """The cluster has said that the document has this text, or (None) is deleted."""
        with self.lock:
            record.texts, record.taken = {text}, record.tried
            if text is not None:
                self.acknowledged += 1
                self.recent.append((text, record.index))

    def unknown(self, record, text):
        """It is being sent: until an answer comes it may have this text, or one of those before."""
        with self.lock:
            record.texts, record.tried = record.texts | {text}, int(time.time() * 1000)

    def touch(self, names):
        with self.lock:
            self.touched.update(names)

    def undo(self, names):
        with self.lock:
            self.undone.append((int(time.time() * 1000), set(names)))

    def pick(self, random, index):
        """Text of an accepted document of the same forest, rather a young one."""
        with self.lock:
            if not self.recent:
                return None
            text, of = self.recent[-1 - int(len(self.recent) * random.random() ** 3)]
        return text if self.forest_of[of] == self.forest_of[index] else None

    def oldest(self, count, keep):
        """Documents that are known to be there, oldest first, if there are more than `keep`."""
        with self.lock:
            there = len(self.records) - keep
            records = itertools.islice(self.records.values(), max(0, there))
            return list(itertools.islice((r for r in records if r.id and None not in r.texts), count))

    def some(self, random, index):
        """A young document that is known to be there, to be changed by whoever asked."""
        with self.lock:
            youngest = list(itertools.islice(reversed(self.records.values()), 300))
        there = [r for r in youngest if r.index == index and r.id and None not in r.texts and not r.bypass]
        return random.choice(there) if there else None

    # ---- checks, while nobody writes ----

    def dated(self, found):
        """The same with the time at which each text was last accepted through spinney.

        That is the arrival, but of an update, which keeps the date of a text that has come before. An attempt that was
        refused, or not made any more, says nothing: nobody has seen the text then.
        """
        for shown in found:
            record = self.records.get(shown.n)
            yield (
                shown
                if shown.arrival is None or record is None
                else shown._replace(arrival=max(shown.arrival, record.taken))
            )

    def check(self, found, losers, stamped):
        """Compares all documents of the index with what is known. `losers`: roots that no document may show; `stamped`:
        whether documents that were written past spinney have their stamps by now."""
        add, once = self.findings.add, {}
        for shown in found:
            if shown.n in once:
                add("bad", f"there twice: {once[shown.n]} and {shown}")
            once[shown.n] = shown
            record = self.records.get(shown.n)
            if record is None or record.texts == {None}:
                add("bad", f"deleted, or refused, and there: {shown}")
            elif shown.text not in record.texts:
                add("lost", f"has not the text that was acknowledged, one of {record.texts}: {shown}")
            if shown.root is None:
                if stamped or not (record and record.bypass):
                    add("bad", f"has no stamp: {shown}")
            elif shown.arrival is None and not self.documents.may_be_blank(shown.text):
                add("bad", f"has no arrival: {shown}")
            elif shown.key is None or int(shown.root, 16) != shown.key % (1 << 64):
                add("bad", f"root and key differ: {shown}")
            elif (self.forest_of[shown.index], shown.root) in losers:
                add("bad", f"shows the loser of a merge: {shown}")
        for n, record in list(self.records.items()):
            shown = once.get(n)
            if shown is None:
                if None not in record.texts:
                    add("lost", f"is not there: {n} in {record.index}, id {record.id}, text {record.texts}")
                del self.records[n]
            else:
                # It is known now.
                record.texts, record.id = {shown.text}, shown.id
        self.unmoved(once)
        self.together(found)
        self.before = once
        self.checked += len(found)

    def unmoved(self, once):
        """What was not written again keeps its root, unless an override names where it was or where it is."""
        for n, now in once.items():
            was = self.before.get(n)
            if was and was.root and was.arrival == now.arrival and was.root != now.root:
                if not {was.root, now.root, now.text} & self.touched:
                    self.findings.add("split", f"was given another root and nobody has said so: {was.root}, now {now}")

    def at_risk(self, arrival):
        return any(begin <= arrival <= end for begin, end in self.lossy)

    def may_stay(self, refused):
        """Whether a release may have been on its way to a Redis master when that was ended, or not yet with its
        replica: the text of a document that was refused then may stay known."""
        return any(begin + 2000 <= refused <= end - 500 for begin, end in self.lossy)

    def undone_late(self, last, shown, copies):
        """Whether what put a document where it is was undone when its text was forgotten, or nearly so: it stays there.

        Documents follow within half a window, unless something is ended meanwhile.
        """
        for at, names in self.undone:
            if names & {last.root, shown.root, shown.text}:
                given = max((copy.arrival for copy in copies if copy.arrival <= at), default=at)
                if at - given > self.window / 2 or any(at - 10_000 < end < given + self.window for end in self.ended):
                    return True
        return False

    def together(self, found):
        """The same text has the root that it had less than a window before: nine tenths, its end is not exact.

        Of a document whose last attempt nobody has answered it is not known when its text was last given.
        """
        texts = collections.defaultdict(list)
        for shown in found:
            record = self.records.get(shown.n)
            if shown.root and shown.arrival and record and record.taken == record.tried:
                texts[self.forest_of[shown.index], shown.text].append(shown)
        for (_, text), copies in texts.items():
            if len(copies) < 2 or self.documents.may_be_blank(text):
                continue
            copies.sort(key=lambda shown: shown.arrival)
            last = None
            for shown in copies:
                if last and shown.arrival - last.arrival < 0.9 * self.window and shown.root != last.root:
                    if not self.has_boilerplate(shown) and not self.undone_late(last, shown, copies):
                        self.findings.add("split", f"one text, two roots: {last} and {shown}")
                if not self.at_risk(shown.arrival):
                    last = shown

    def young(self, random, found, now, count):
        """Some documents whose texts have to be known now, one of each text."""
        texts = {}
        for shown in found:
            if (
                shown.root
                and shown.arrival
                and now - shown.arrival < 0.6 * self.window
                and not self.at_risk(shown.arrival)
            ):
                texts[self.forest_of[shown.index], shown.text] = shown
        # Bodies of questions are limited.
        fit = [
            shown
            for shown in texts.values()
            if not shown.text.startswith("L") and not self.documents.may_be_blank(shown.text)
        ]
        return random.sample(fit, min(count, len(fit)))
