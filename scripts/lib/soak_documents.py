"""Documents at the limits of every constant that is about documents.

The same key and seed make the same text, so that nobody has to keep it. A key is `NUMBER` or `NUMBER.EDIT`: an
original, or an edition of it that differs here and there. `A` in front makes it an article, `L` a large one;
`/untitled` behind it takes the title away.
"""

import functools
import html
import random
import re

# What a letter, a word or a sentence may be of.
ALPHABETS = {
    "latin": "etaoinshrdlucmfwypvbgkq",
    "han": "".join(map(chr, range(0x4E00, 0x4F80))) + "體國經濟發展学会时间问题记者报道今天表示",
    "kana": "".join(map(chr, range(0x3042, 0x3090))) + "カタナヒラ日本東京",
    "hangul": "".join(map(chr, range(0xAC00, 0xAD00))),
    "cyrillic": "оеаинтсрвлкмдпуяыьгзбчйхжш",
    "greek": "αβγδεζηθικλμνξοπρστυφχψω",
    "arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "thai": "กขคงจฉชซญดตถทนบปผพภมยรลวสหอะาิีุูเแโ",
    "devanagari": "अआइईउएकखगघचजटडतथदधनपबमयरलवसह",
    "fullwidth": "".join(map(chr, range(0xFF21, 0xFF5B))) + "０１２３４５６７８９",
    "astral": "𝐚𝐛𝐜𝐝𝐞𝐟𝐠𠀀𠀁𠀂𠀃𡿨",
}
WITHOUT_SPACES = {"han", "kana", "thai"}
EMOJI = "😀🎉🚒🌊🏳️‍🌈👩‍👩‍👧‍👦🇨🇳👍🏽❤️"
# Combining marks, what joins and splits letters, what turns the direction of writing.
MARKS = "".join(map(chr, range(0x0300, 0x0310))) + "\u200b\u200d\u00ad\u202e\u2066\ufeff"
# Sizes that a constant of crates/text or crates/bulk names; each is met, missed by one and exceeded by one.
WORDS = [1, 2, 3, 5, 8, 12, 16, 24, 32, 64, 80, 96, 100, 256, 1000, 1024]
LETTERS = [1, 8, 12, 20, 30, 40, 100, 140, 160, 200, 450, 1024, 4096]
SENTENCES = [1, 8, 16, 64, 1024]
LARGE = [64 << 10, 256 << 10, 1 << 20, 2 << 20]
NUMBERS = [1, 3, 10, 12]
BLANK = ["", " ", "\n\t\u3000", "…!?—。", EMOJI, "<p></p><br>", "<script>var a = 1;</script>", "&nbsp;&amp;", MARKS]


def at(pick, limits):
    return max(0, pick.choice(limits) + pick.choice([-1, 0, 0, 1]))


def script_of(pick):
    return pick.choices(list(ALPHABETS), [30, 20] + [3] * (len(ALPHABETS) - 2))[0]


def word(pick, script):
    return "".join(
        pick.choices(ALPHABETS[script], k=pick.randint(1, 3) if script in WITHOUT_SPACES else pick.randint(2, 9))
    )


def words(pick, count, script=None):
    return [word(pick, script or script_of(pick)) for _ in range(count)]


def joined(pick, chosen, script):
    """Words as sentences."""
    space, stop = ("", "。") if script in WITHOUT_SPACES else (" ", ". ")
    sentences, first = [], 0
    while first < len(chosen):
        length = pick.choice([3, 8, 12, 14, 20])
        sentences.append(space.join(chosen[first : first + length]))
        first += length
    return stop.join(sentences) + stop


def number(pick):
    """One of many notations of a number."""
    n = pick.randint(2, 9_999_999)
    return pick.choice(
        [
            str(n),
            f"{n:,}",
            f"{n:,}".replace(",", "."),
            f"{n:,}".replace(",", " "),
            f"${n / 1e6:.1f} million",
            f"{n % 100}%",
            "九十八",
            "130万",
            "twenty-one",
            "3 March",
            "３月４日",
            f"{n / 100:.2f}",
        ]
    )


def article(pick):
    script = script_of(pick)
    return joined(pick, words(pick, 6, script), script), joined(
        pick, words(pick, pick.randint(60, 320), script), script
    )


def around_words(pick):
    script = script_of(pick)
    return " ".join(words(pick, at(pick, [1, 6, 24, 64]), script)), joined(
        pick, words(pick, at(pick, WORDS), script), script
    )


def around_letters(pick):
    alphabet = ALPHABETS[script_of(pick)]
    text = "".join(pick.choices(alphabet, k=at(pick, LETTERS)))
    spaced = " ".join(text[n : n + 6] for n in range(0, len(text), 6))
    return "".join(pick.choices(alphabet, k=at(pick, [1, 8, 12, 1024]))), pick.choice([text, spaced])


def around_sentences(pick):
    script = pick.choice(["latin", "han"])
    text = "".join(joined(pick, words(pick, pick.choice([1, 5]), script), script) for _ in range(at(pick, SENTENCES)))
    return "Report " + word(pick, "latin"), text


def with_numbers(pick):
    numbers = [number(pick) for _ in range(at(pick, NUMBERS))]
    mixed = words(pick, pick.choice([10, 40, 99]), "latin") + numbers
    pick.shuffle(mixed)
    return f"Weather of {number(pick)}", joined(pick, mixed, "latin")


def mixed_scripts(pick):
    return " ".join(words(pick, 5)), " ".join(words(pick, pick.choice([9, 60, 200])))


def with_marks(pick):
    """Letters under more marks than a cluster may have, emoji, signs that nobody sees."""
    marked = [letter + "".join(pick.choices(MARKS, k=at(pick, [1, 12, 16]))) for letter in words(pick, 30, "latin")]
    pick.shuffle(marked)
    return pick.choice(list(BLANK)), " ".join(marked + [EMOJI] * pick.randint(0, 9))


def markup(pick):
    inner = joined(pick, words(pick, 80, "latin"), "latin")
    hidden = "".join(pick.choices("var x=function(){};", k=at(pick, [160, 1000])))
    entities = "&lt;b&gt; &#x4e00; &nosuchentity; &amp;amp; &#99999999; "
    return (
        "<b>Title</b> &quot;a&quot;",
        f"<div><script>{hidden}</script><p>{inner}</p>{entities}<!-- {hidden} --><p>{inner[:200]}",
    )


def blank(pick):
    """Nothing that a root could be of: each such document has a root of its own."""
    return pick.choice(BLANK), pick.choice(BLANK)


def form(pick):
    """A form of which only some names and numbers differ."""
    return "Notice", (
        f"The office of {word(pick, 'latin')} informs that on {number(pick)} the water supply of the district "
        f"will be interrupted for {number(pick)} hours because of maintenance. Residents are asked to store water."
    )


def large(pick):
    size, script = at(pick, LARGE), pick.choice(["latin", "han"])
    base = joined(pick, words(pick, 3000, script), script)
    # The limit is one of bytes, cut at a character.
    return "Large", (base * (size // len(base) + 1)).encode()[:size].decode(errors="ignore")


KINDS = [
    (article, 40),
    (around_words, 14),
    (around_letters, 14),
    (around_sentences, 4),
    (with_numbers, 8),
    (mixed_scripts, 5),
    (with_marks, 5),
    (markup, 4),
    (blank, 3),
    (form, 8),
]


class Documents:
    def __init__(self, seed):
        self.seed = seed

    @functools.lru_cache(maxsize=256)
    def text(self, key):
        """Title and body of a key."""
        text, _, untitled = key.partition("/")
        original, _, edit = text.partition(".")
        pick = random.Random(f"{self.seed}/{original}")
        kind = {"L": large, "A": article}.get(key[0]) or pick.choices(*zip(*KINDS))[0]
        title, body = kind(pick)
        if edit:
            title, body = self.edited(random.Random(f"{self.seed}/{text}"), title, body)
        return None if untitled else title, body

    def fields(self, key):
        title, body = self.text(key)
        return {"title": title, "content": body}

    def edition(self, random, key):
        """The key of an edition of this text."""
        return f"{key.partition('/')[0].partition('.')[0]}.{random.randint(1, 1 << 20)}"

    @staticmethod
    def edited(pick, title, body):
        """As an edition: another notation, a word more, less or other, another end, another title."""
        changes = [
            lambda t, b: (t, b + f" Published by {word(pick, 'latin')}."),
            lambda t, b: (t, f"({word(pick, 'latin')}) " + b),
            lambda t, b: (word(pick, "latin") + " " + t, b),
            lambda t, b: (t, b.replace(" ", "\u00a0\r\n")),
            lambda t, b: (t, b[: max(1, len(b) - len(b) // 8)]),
            lambda t, b: (t, b.upper()),
            lambda t, b: (t, b.replace("&", "&amp;").replace("<", "&lt;")),
            lambda t, b: (t, f"<p>{b}</p>"),
            lambda t, b: (t, b.replace("体", "體").replace("国", "國")),
            lambda t, b: (t, b + b),
            lambda t, b: (t, b[: len(b) // 2] + f" {number(pick)} " + b[len(b) // 2 :]),
        ]
        for change in pick.sample(changes, pick.choice([1, 1, 2, 3])):
            title, body = change(title, body)
        return title, body

    def may_be_blank(self, key):
        """Whether there may be nothing in it of which a root could be; rather too often than too rarely."""
        text = " ".join(filter(None, self.text(key)))
        # References in capitals, as in `&NBSP;`, stand for the same.
        for _ in range(2):
            text = html.unescape(re.sub(r"&[A-Z]+;", lambda reference: reference[0].lower(), text))
        seen = re.sub(r"<script.*?(</script>|$)|<[^>]*>", "", text, flags=re.DOTALL | re.IGNORECASE)
        return not any(letter.isalnum() for letter in seen)
