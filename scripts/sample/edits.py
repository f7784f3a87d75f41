"""What happens to a story when another medium takes it over: the named kinds of edit.

Each edit takes (story, desk) and gives back the story as the other medium printed it. A desk knows its medium, its dice, and
the other headlines of the day. ORDER is the order in which several edits are applied to one story.
"""
from dataclasses import dataclass, replace

from dice import Dice
from sources import Medium, Traditional, phrases

TRADITIONAL = Traditional()
ZH_NUMBERS = set("零〇一二三四五六七八九十百千万亿两半几多")
ZH_TYPOS = dict(
    "的地 地的 在再 再在 做作 作做 已己 像象 他她 她他 那哪 坐座 带戴 和合 以已 后候 进近 是事 因应 会回 入人 到道 有又 只支".split()
)
EN_SLIPS = dict(zip("abcdefghijklmnopqrstuvwxyz", "svxfrghjoklknbpowtdyibecux"))
HALF_WIDTH = str.maketrans("，。：；？！（）“”、", ',.:;?!()"",')
LETTERS = {"zh": ("\u4e00", "\u9fff"), "ar": ("\u0628", "\u064a"), "th": ("\u0e01", "\u0e2e")}  # Thai: consonants
DIGITS = {"ar": "٠١٢٣٤٥٦٧٨٩", "th": "๐๑๒๓๔๕๖๗๘๙"}
MARKS = {"ar": str.maketrans("،؛؟«»", ',;?""'), "th": str.maketrans("“”", '""')}


@dataclass
class Desk:
    medium: Medium
    dice: Dice
    headlines: list  # titles of other stories in the same language

    def own_script(self, text):
        return TRADITIONAL.convert(text) if self.medium.traditional else text


def space(story):
    return "" if story.lang == "zh" else " "


def with_paras(story, paras):
    return replace(story, paras=tuple(paras))


def byline(story, desk):
    reporter = desk.own_script(desk.dice.pick(phrases("reporters", story.lang)))
    line = desk.medium.by.replace("%s", reporter)
    if line[-1] in "）】：:":
        return with_paras(story, (line + space(story) + story.paras[0], *story.paras[1:]))
    return with_paras(story, (line, *story.paras))


def footer(story, desk):
    return with_paras(story, (*story.paras, *desk.medium.foot))


def editor_credit(story, desk):
    return with_paras(story, (*story.paras, desk.medium.credit))


def title(story, desk):
    if story.other_title:
        return replace(story, title=desk.own_script(story.other_title))
    mark = "_" if story.lang == "zh" else " | "
    return replace(story, title=story.title + mark + desk.medium.name)


def related_links(story, desk):
    links = desk.dice.some([h for h in desk.headlines if h != story.title], 4)
    return with_paras(story, (*story.paras, *map(desk.own_script, [*phrases("related", story.lang), *links])))


def page_furniture(story, desk):
    """Rows of the page and a line of its script or style, where a careless extraction leaves them."""
    *rows, code = desk.medium.nav
    at = desk.dice.pick([1, len(story.paras)])
    return with_paras(story, (*rows, *story.paras[:at], code, *story.paras[at:]))


def drop_paragraph(story, desk):
    gone = desk.dice.between(1, len(story.paras) - 1)
    return with_paras(story, story.paras[:gone] + story.paras[gone + 1 :])


def insert_sentence(story, desk):
    at = desk.dice.between(1, len(story.paras) - 2)
    paras = list(story.paras)
    paras[at] += space(story) + story.added
    return with_paras(story, paras)


def typo(text, at, lang, dice):
    """One slip at text[at]: a wrong character, a lost or doubled one, or two changed over. Numbers stay as they are."""
    here, following = text[at], text[at + 1]
    if lang == "zh" and here in ZH_TYPOS:
        return text[:at] + ZH_TYPOS[here] + text[at + 1 :]
    wrong = EN_SLIPS[here] if lang == "en" else dice.pick(text_letters(text, lang))
    slip = dice.pick([wrong + following, following, here + here + following, following + here])
    return text[:at] + slip + text[at + 2 :]


def is_letter(c, lang):
    if lang == "en":
        return c in EN_SLIPS
    first, last = LETTERS[lang]
    return first <= c <= last and c not in ZH_NUMBERS


def text_letters(text, lang):
    return [c for c in text if is_letter(c, lang)]


def with_typos(story, dice, count):
    text, done = "\n".join(story.paras), 0
    while done < count:
        at = dice.between(1, len(text) - 3)
        if is_letter(text[at], story.lang) and is_letter(text[at + 1], story.lang):
            changed = typo(text, at, story.lang, dice)
            done += changed != text
            text = changed
    return with_paras(story, text.split("\n"))


def few_chars(story, desk):
    length = sum(map(len, story.paras))
    return with_typos(story, desk.dice, 1 if length < 300 else desk.dice.between(2, 5))


def chars_2pct(story, desk):
    return with_typos(story, desk.dice, max(2, sum(map(len, story.paras)) // 50))


def punct_width(story, desk):
    """Chinese: half-width punctuation. Arabic, Thai: that of ASCII, and the other digits. English: typographic quotes
    and dashes for the typewriter's."""
    if story.lang != "en":
        half = with_paras(story, [plain(p, story.lang) for p in story.paras])
        return replace(half, title=plain(story.title, story.lang))
    return with_paras(story, [curly(p) for p in story.paras])


def plain(text, lang):
    if lang == "zh":
        return text.translate(HALF_WIDTH)
    own = DIGITS[lang]
    return text.translate(str.maketrans("0123456789" + own, own + "0123456789")).translate(MARKS[lang])


def curly(text):
    out = []
    for before, c in zip(" " + text, text):
        out.append("’" if c == "'" else c if c != '"' else "“" if before in " (" else "”")
    return "".join(out).replace(" - ", " — ").replace("£", "￡")


def traditional(story, desk):
    convert = TRADITIONAL.convert
    changed = replace(with_paras(story, map(convert, story.paras)), title=convert(story.title))
    if changed.paras == story.paras:
        raise ValueError(f"{story.slug}: traditional script changed nothing")
    return changed


def whitespace(story, desk):
    """Indents, blank lines, doubled and no-break spaces, an invisible mark at the end."""
    if story.lang == "zh":
        paras = ["\u3000\u3000" + p.replace("“", " “").replace("，", "， ", 2) for p in story.paras]
        return with_paras(story, ["\n".join(p + "\n" for p in paras) + "\u200b"])
    if story.lang == "en":
        paras = ["    " + p.replace(". ", ".  ").replace(" the ", "\u00a0the ", 2) for p in story.paras]
    else:
        paras = ["    " + p.replace(" ", "\u00a0", 2).replace(" ", "  ", 2) for p in story.paras]
    return with_paras(story, ["\r\n\r\n".join(paras) + " \t"])


def one_line(story, desk):
    return with_paras(story, [space(story).join(story.paras)])


def html(story, desk):
    styles = '<p style="text-indent:2em">%s</p>', '<p class="t">%s</p><br/>', "<div><span>%s</span>&nbsp;</div>"
    style = desk.dice.pick(styles)
    entities = str.maketrans({"&": "&amp;", "<": "&lt;", "“": "&ldquo;", "”": "&rdquo;"})
    paras = [p.translate(entities) for p in story.paras]
    picture = f'<img src="https://{desk.medium.host}/pic/{desk.dice.between(1000, 9999)}.jpg" alt=""/>'
    paras[0] = f"<strong>{paras[0]}</strong>"
    return with_paras(story, [style % paras[0], picture, *(style % p for p in paras[1:])])


def repost(story, desk):
    """Several edits at once, as a site does that takes everything it can get."""
    usable = [edit for edit in REPOST_TEXT if fits(edit, story, desk.medium)]
    chosen = [byline, footer, *desk.dice.some(usable, 2), desk.dice.pick(REPOST_LAYOUT)]
    if desk.medium.traditional:
        chosen.append(traditional)
    for edit in ORDER:
        if edit in chosen:
            story = edit(story, desk)
    return story


REPOST_TEXT = [insert_sentence, drop_paragraph, few_chars, title, punct_width, editor_credit, related_links]
REPOST_LAYOUT = [one_line, html, whitespace]
ORDER = [drop_paragraph, insert_sentence, few_chars, chars_2pct, traditional, punct_width, title, byline, editor_credit, footer]
ORDER += [related_links, page_furniture, one_line, html, whitespace]
KINDS = {edit.__name__: edit for edit in [*ORDER, repost]}


def fits(edit, story, medium):
    """Whether this medium could print this story with this edit (a medium in traditional script prints nothing else)."""
    needs = {
        drop_paragraph: len(story.paras) >= 4,
        insert_sentence: story.added and len(story.paras) >= 3,
        one_line: len(story.paras) >= 2,
        chars_2pct: len(story.paras) >= 2,
        page_furniture: medium.nav,
        punct_width: punct_width(story, None).paras != story.paras,
    }
    script = edit is repost or (edit is traditional) == medium.traditional
    return bool(medium.lang == story.lang and script and needs.get(edit, True))
