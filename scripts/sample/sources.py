"""Reads the hand-written files: stories, templates, media, phrases and the table of traditional script."""
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Story:
    slug: str
    lang: str
    title: str
    paras: tuple
    other_title: str = ""  # the headline another desk gave it
    added: str = ""  # the sentence another desk added


@dataclass(frozen=True)
class Medium:
    name: str
    host: str
    lang: str
    traditional: bool  # prints in traditional script
    by: str
    credit: str
    nav: tuple
    foot: tuple


@dataclass(frozen=True)
class Template:
    slug: str
    lang: str
    day: int  # published so many days after the day that it speaks of
    time: str
    slots: dict  # name -> tuple of words, or (low, high) as written
    title: str
    paras: tuple

    def is_number(self, slot):
        return isinstance(self.slots[slot], str)

    def draw(self, slot, dice):
        if not self.is_number(slot):
            return dice.pick(self.slots[slot])
        low, high = self.slots[slot].split("..")
        places = len(low.partition(".")[2])
        scale = 10**places
        value = dice.between(round(float(low) * scale), round(float(high) * scale))
        return f"{value / scale:.{places}f}"

    def fill(self, values):
        paras = tuple(p.format(**values) for p in self.paras)
        return Story(self.slug, self.lang, self.title.format(**values), paras)


def blocks(path):
    """(head, lines) of each block that begins with `== head`; blank lines and `# ` comments are skipped."""
    found = []
    for line in path.read_text("utf8").splitlines():
        if line.startswith("== "):
            found.append((line[3:].strip(), []))
        elif line.strip() and not line.startswith("# "):
            found[-1][1].append(line.rstrip("\n"))
    return found


def stories(lang, kind=""):
    out = []
    for slug, lines in blocks(HERE / "originals" / f"{lang}{kind}.txt"):
        title, rest = lines[0], lines[1:]
        marked = {line[0]: line[2:] for line in rest if line[:2] in ("~ ", "+ ")}
        paras = tuple(line for line in rest if line[:2] not in ("~ ", "+ "))
        out.append(Story(slug, lang, title, paras, marked.get("~", ""), marked.get("+", "")))
    return out


def templates(lang):
    out = []
    for slug, lines in blocks(HERE / "originals" / f"{lang}-templates.txt"):
        slots, text, when = {}, [], None
        for line in lines:
            if line.startswith("? "):
                name, _, values = line[2:].partition(" = ")
                slots[name] = values if ".." in values else tuple(values.split("|"))
            elif line.startswith("@ "):
                when = line[2:].split()
            else:
                text.append(line)
        out.append(Template(slug, lang, int(when[0]), when[1], slots, text[0], tuple(text[1:])))
    return out


def media():
    out = []
    for head, lines in blocks(HERE / "media.txt"):
        name, host, lang = head.split(" | ")
        has = lambda key: tuple(line.split(" ", 1)[1] for line in lines if line.startswith(key + " "))
        out.append(Medium(name, host, lang[:2], lang == "zh-Hant", has("by")[0], has("credit")[0], has("nav"), has("foot")))
    return out


def phrases(topic, lang):
    return dict(blocks(HERE / "phrases.txt"))[f"{topic} {lang}"]


class Traditional:
    """Simplified to traditional script by the table in traditional.txt; raises on a character the table lacks."""

    def __init__(self):
        words, self.chars = {}, dict(zip("“”‘’", "「」『』"))
        for line in (HERE / "traditional.txt").read_text("utf8").splitlines():
            key, *values = line.split()
            if key == "phrase":
                words[values[0]] = values[1]
            elif key == "change":
                self.chars.update(zip(values[0][::2], values[0][1::2]))
            elif key == "same":
                self.chars.update((c, c) for c in values[0])
        self.words = words
        self.pattern = re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)) + "|[“”‘’\u3400-\u9fff]")

    def convert(self, text):
        def one(match):
            found = match.group()
            if found in self.words:
                return self.words[found]
            if found not in self.chars:
                raise ValueError(f"traditional.txt has no line for {found!r}: add it under `change` or `same`")
            return self.chars[found]

        return self.pattern.sub(one, text)
