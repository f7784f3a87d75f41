#!/usr/bin/env python3
"""Makes the sample news (news.ndjson, groups.tsv) and the labelled pairs (pairs.ndjson, pairs.tsv) from originals/.

  make.py           write the four files
  make.py --check   write nothing; exit 1 if a file is not what would be written

Standard library only; the same bytes on every run.
"""
import collections
import itertools
import json
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone

sys.dont_write_bytecode = True  # a check leaves nothing behind

from dice import Dice
from edits import KINDS, Desk, byline, fits, footer
from sources import HERE, media, phrases, stories, templates

LANGS = ("zh", "en")
MORE_LANGS = ("ar", "th")  # a few stories each, in the news alone, of the days after the others
HOURS_EAST = {"zh": 8, "en": 0, "ar": 3, "th": 7}
ZONES = {lang: timezone(timedelta(hours=hours)) for lang, hours in HOURS_EAST.items()}
FIRST_DAY, DAYS = datetime(2025, 10, 13), 14
FIRST_DAY_MORE, DAYS_MORE = datetime(2025, 10, 28), 4
# The stories that everybody took, and how often.
FAMOUS = {"typhoon-landing": 18, "ferry-fire": 16, "dust-storm": 9, "flash-flood": 7}
ALONE = {  # the stories that nobody took
    *("go-girl", "dialect-archive", "second-hand-books", "oyster-rafts"),
    *("curling-club", "corner-bookshop", "maths-teachers", "street-mural"),
}
MEDIA = media()
STORIES = {lang: stories(lang) for lang in (*LANGS, *MORE_LANGS)}
HEADLINES = {lang: [s.title for s in told] for lang, told in STORIES.items()}
AGGREGATORS = ("汐上快读", "Skimmer")  # they write nothing themselves


class Collector:
    """The documents of one file, and the order in which kinds of edit come up: the least used one first."""

    def __init__(self, letter):
        self.letter, self.documents, self.used = letter, [], collections.Counter()

    def add(self, story, medium, when, **label):
        self.documents.append({"story": story, "medium": medium, "when": when, **label})
        return self.documents[-1]

    def next_kind(self, story, medium, dice):
        able = [k for k, edit in KINDS.items() if fits(edit, story, medium)]
        weight = {"repost": 3, "traditional": 2}
        rank = lambda k: (self.used[k, story.lang] / weight.get(k, 1), dice.below(1000))
        kind = min(able, key=rank)
        self.used[kind, story.lang] += 1
        return kind

    def number(self):
        """Gives every document its id, in the order of publication."""
        self.documents.sort(key=lambda d: (d["when"], d["story"].lang, d["story"].slug, d["medium"].host))
        for n, d in enumerate(self.documents, 1):
            d["id"] = f"{self.letter}{n:04}"

    def ndjson(self):
        return "".join(json.dumps(source(d), ensure_ascii=False) + "\n" for d in self.documents)


def source(d):
    story, medium, when = d["story"], d["medium"], d["when"]
    return {
        "id": d["id"],
        "title": story.title,
        "content": "\n".join(story.paras),
        "url": f"https://{medium.host}/{when:%Y%m%d}/{d['id']}.html",
        "media": medium.name,
        "published_at": when.isoformat(),
        "lang": story.lang,
    }


def newsrooms(lang):
    return [m for m in MEDIA if m.lang == lang and not m.traditional and m.name not in AGGREGATORS]


def some_time(lang, dice):
    first_day, days = (FIRST_DAY_MORE, DAYS_MORE) if lang in MORE_LANGS else (FIRST_DAY, DAYS)
    minutes = dice.between(0, (days - 2) * 24 * 60)
    return first_day.replace(tzinfo=ZONES[lang]) + timedelta(hours=5, minutes=minutes, seconds=dice.below(60))


def print_as(kind, story, medium, dice):
    return KINDS[kind](story, Desk(medium, dice, HEADLINES[story.lang]))


def publish(news, story, group, kind, dice, reprints, medium=None, when=None):
    """The story in its own medium, half the time with that medium's footer, and its reprints in others afterwards."""
    home = medium or dice.pick(newsrooms(story.lang))
    when = when or some_time(story.lang, dice)
    printed = print_as("footer", story, home, dice) if kind == "original" and dice.chance(0.5) else story
    news.add(printed, home, when, group=group, kind=kind)
    others = [m for m in MEDIA if m.lang == story.lang and m is not home]
    takers = dice.some(others, len(others))
    for n in range(reprints):
        taker = takers[n % len(takers)]
        edit = news.next_kind(story, taker, dice)
        later = timedelta(minutes=dice.between(4, 90) + n * dice.between(5, 150), seconds=dice.below(60))
        news.add(print_as(edit, story, taker, dice), taker, when + later, group=group, kind=edit)


def publish_stories(news, lang):
    first_told = {}
    for story in STORIES[lang]:
        dice = Dice(f"story {lang} {story.slug}")
        reprints = 0 if story.slug in ALONE else FAMOUS.get(story.slug, 3 + dice.below(4)) - 1
        publish(news, story, f"{lang}/{story.slug}", "original", dice, reprints)
        first_told[story.slug] = next(d for d in reversed(news.documents) if d["kind"] == "original")
    for story in () if lang in MORE_LANGS else stories(lang, "-retold"):
        dice, first = Dice(f"retold {lang} {story.slug}"), first_told[story.slug]
        medium = dice.pick([m for m in newsrooms(lang) if m is not first["medium"]])
        when = first["when"] + timedelta(minutes=dice.between(30, 900))
        publish(news, story, f"{lang}/{story.slug}/retold", "event", dice, dice.pick([0, 1, 2, 2, 3]), medium, when)


def publish_notices(news, lang):
    """Some are reprinted; some stand alone under a footer, or with a sentence, that many others share."""
    for n, story in enumerate(stories(lang, "-notices")):
        dice, group = Dice(f"notice {lang} {story.slug}"), f"{lang}/{story.slug}"
        if n % 5 == 3:
            medium = dice.pick([m for m in newsrooms(lang) if len(m.foot[0]) > 60])
            news.add(print_as("footer", story, medium, dice), medium, some_time(lang, dice), group=group, kind="footer_only")
        elif n % 5 == 4:
            story = replace(story, paras=(*story.paras, dice.pick(phrases("boilerplate", lang))))
            news.add(story, dice.pick(newsrooms(lang)), some_time(lang, dice), group=group, kind="boilerplate")
        else:
            publish(news, story, group, "notice", dice, dice.between(1, 3))


def instances(template, count, dice):
    """So many (values, story), no two of them for the same place (or team, road: the first slot) on the same day."""
    seen = set()
    while len(seen) < count:
        values = {slot: template.draw(slot, dice) for slot in template.slots}
        key = (values[next(iter(template.slots))], values["day"])
        if key not in seen:
            seen.add(key)
            yield values, template.fill(values)


def publish_templates(news, lang):
    """Forms filled in for other days and places, each a story of its own; the first of each is reprinted once."""
    count = 3 if lang in MORE_LANGS else 8
    for template in templates(lang):
        dice = Dice(f"template {lang} {template.slug}")
        for n, (values, story) in enumerate(instances(template, count, dice), 1):
            hour, minute = map(int, template.time.split(":"))
            spoken_of = FIRST_DAY.replace(day=int(values["day"]), hour=hour, minute=minute, tzinfo=ZONES[lang])
            when = spoken_of + timedelta(days=template.day, seconds=dice.below(600))
            publish(news, story, f"{lang}/{template.slug}/{n}", "template", dice, reprints=1 if n == 1 else 0, when=when)


def make_news():
    news = Collector("n")
    for lang in LANGS:
        publish_stories(news, lang)
        publish_notices(news, lang)
        publish_templates(news, lang)
    for lang in MORE_LANGS:
        publish_stories(news, lang)
        publish_templates(news, lang)
    news.number()
    groups = ["id\tgroup\tkind", *("\t".join((d["id"], d["group"], d["kind"])) for d in news.documents)]
    return news.ndjson(), "\n".join(groups) + "\n"


class Pairs(Collector):
    """Documents, and which two of them are labelled same or different."""

    def __init__(self):
        super().__init__("p")
        self.rows = []

    def document(self, story, dice, medium=None, after=None):
        when = after["when"] + timedelta(minutes=dice.between(3, 2000)) if after else some_time(story.lang, dice)
        return self.add(story, medium or dice.pick(newsrooms(story.lang)), when)

    def label(self, a, b, label, kind):
        if a["story"].paras == b["story"].paras and a["story"].title == b["story"].title:
            raise ValueError(f"{kind}: the two documents of {a['story'].slug} do not differ")
        self.rows.append((a, b, label, kind, a["story"].lang))


def pair_reprints(pairs, lang):
    """Every kind of edit on ten stories, notices among them where they allow it; reposts and traditional script on 16."""
    originals = {}
    for n, (kind, edit) in enumerate(KINDS.items()):
        dice = Dice(f"pair {lang} {kind}")
        able = {s: [m for m in MEDIA if fits(edit, s, m)] for s in STORIES[lang] + stories(lang, "-notices")}
        pool = [s for s, takers in able.items() if takers]  # empty for traditional script in English
        start = n * 7 % max(1, len(pool))
        for story in (pool * 2)[start : start + (16 if kind in ("repost", "traditional") else 10)]:
            if story not in originals:
                originals[story] = pairs.document(story, dice)
            medium = dice.pick(able[story])
            reprint = pairs.document(print_as(kind, story, medium, dice), dice, medium, after=originals[story])
            pairs.label(originals[story], reprint, "same", kind)


def pair_templates(pairs, lang):
    """Two instances of a template: all numbers differ, all numbers and names, or, in a short notice, a single one of them."""
    for template in templates(lang):
        dice = Dice(f"pair template {lang} {template.slug}")
        numbers = [s for s in template.slots if template.is_number(s)]
        names = [s for s in template.slots if not template.is_number(s)]
        if len(template.paras) > 1:
            changes = [("template_numbers", numbers)] * 2 + [("template_places", [*numbers, *names])] * 2
        else:
            changes = [("notice_number", [n]) for n in numbers] + [("notice_place", [n]) for n in names] * 2
        for kind, changed in changes:
            values = {slot: template.draw(slot, dice) for slot in template.slots}
            other = dict(values)
            for slot in changed:
                while other[slot] == values[slot]:
                    other[slot] = template.draw(slot, dice)
            a, b = (pairs.document(template.fill(v), dice) for v in (values, other))
            pairs.label(a, b, "different", kind)


def pair_look_alikes(pairs, lang):
    """Different stories that share a footer, a stock sentence, or the event they tell."""
    notices = stories(lang, "-notices")
    long_footers = [m for m in MEDIA if m.lang == lang and len(m.foot[0]) > 60]
    for n, (one, two) in enumerate(zip(notices[::2], notices[1::2])):
        dice = Dice(f"pair look-alike {lang} {n}")
        medium = long_footers[n % len(long_footers)]
        a, b = (pairs.document(print_as("footer", s, medium, dice), dice, medium) for s in (one, two))
        pairs.label(a, b, "different", "footer_only")
        stock = phrases("boilerplate", lang)[n % 5]
        halves = [replace(s, paras=(*s.paras[:2], stock)) for s in ((one, two) if n % 2 else STORIES[lang][2 * n : 2 * n + 2])]
        a, b = (pairs.document(s, dice) for s in halves)
        pairs.label(a, b, "different", "shared_sentence")
    told = {s.slug: s for s in STORIES[lang]}
    for n, again in enumerate(stories(lang, "-retold")):
        dice = Dice(f"pair event {lang} {again.slug}")
        one, other = told[again.slug], again
        a, b = pairs.document(one, dice), pairs.document(other, dice)
        pairs.label(a, b, "different", "same_event")
        if n % 2 == 0:
            desk = Desk(dice.pick(long_footers), dice, HEADLINES[lang])
            a, b = (pairs.document(footer(byline(s, desk), desk), dice, desk.medium) for s in (one, other))
            pairs.label(a, b, "different", "same_event_same_footer")


def make_pairs():
    pairs = Pairs()
    for lang, part in itertools.product(LANGS, (pair_reprints, pair_templates, pair_look_alikes)):
        part(pairs, lang)
    pairs.number()
    rows = ["a_id\tb_id\tlabel\tkind\tlang", *("\t".join((a["id"], b["id"], *rest)) for a, b, *rest in pairs.rows)]
    return pairs.ndjson(), "\n".join(rows) + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    names = ("news.ndjson", "groups.tsv", "pairs.ndjson", "pairs.tsv")
    files = {HERE / name: text.encode("utf8") for name, text in zip(names, (*make_news(), *make_pairs()))}
    if sys.argv[1:]:
        stale = [path.name for path, made in files.items() if not path.exists() or path.read_bytes() != made]
        if stale:
            sys.exit(f"not what make.py makes: {', '.join(stale)}; run scripts/sample/make.py")
    else:
        for path, made in files.items():
            path.write_bytes(made)


if __name__ == "__main__":
    main()
