"""Pages of the site, from those of the repository.

site.py stage OUT API     writes the source of two books, OUT/en/src and OUT/zh/src; API is the page of the API
site.py check SITE        whether every link of the built site leads to a file, and to an anchor that is there
"""

import html.parser
import pathlib
import re
import shutil
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^()\s]+)(\))")

# Where pages and folders of the repository are in the English book; whatever else is linked to is copied below files/.
PAGES = {
    "README.md": "introduction.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "mappings/README.md": "mappings.md",
    "fuzz/README.md": "fuzz.md",
    "docs/recipes/README.md": "recipes/index.md",
    "docs/openapi.yaml": "api.md",
}
CHINESE = {"README.zh-CN.md": "introduction.md", "docs/guide.zh-CN.md": "guide.md"}
CHINESE_SUMMARY = "# 目录\n\n[spinney](introduction.md)\n\n- [指南](guide.md)\n"


def english(path):
    """The place of a file in the English book, or None."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and path.endswith(".md") and path not in CHINESE:
        return path.removeprefix("docs/")
    return None


class Book:
    def __init__(self, out, in_chinese):
        self.src, self.in_chinese = out / ("zh" if in_chinese else "en") / "src", in_chinese

    def target(self, path):
        """Where this book finds a file of the repository, from the top of the book."""
        own = CHINESE.get(path) if self.in_chinese else english(path)
        if own:
            return own
        other = english(path) if self.in_chinese else CHINESE.get(path)
        if other:
            # A page of the other book, as it is named when it is built.
            return ("../" if self.in_chinese else "zh/") + other.removesuffix(".md") + ".html"
        source, copy = ROOT / path, self.src / "files" / path
        if not source.is_file():
            raise SystemExit(f"site: {path} is linked to and is no file")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        return "files/" + path

    def page(self, path, text, at):
        """Writes a page with its links changed; code is left as it is."""
        folder = (ROOT / path).parent

        def changed(match):
            link = match[2]
            if re.match(r"[a-z]+:|#", link):
                return match[0]
            name, _, anchor = link.partition("#")
            linked = (folder / urllib.parse.unquote(name)).resolve().relative_to(ROOT).as_posix()
            up = "../" * at.count("/")
            return match[1] + up + self.target(linked) + (f"#{anchor}" if anchor else "") + match[3]

        parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
        # A link whose text is code is a link: its brackets are in two parts.
        text = "".join(part if index % 2 else LINK.sub(changed, part) for index, part in enumerate(parts))
        (self.src / at).parent.mkdir(parents=True, exist_ok=True)
        (self.src / at).write_text(text, encoding="utf-8")


def stage(out, api):
    book = Book(out, in_chinese=False)
    pages = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    summary = (ROOT / "docs/SUMMARY.md").read_text(encoding="utf-8")
    for path in sorted({*pages, *(page for page in PAGES if page.endswith(".md"))}):
        at = english(path)
        if at:
            book.page(path, (ROOT / path).read_text(encoding="utf-8"), at)
            if at not in ("SUMMARY.md", "introduction.md") and f"({path.removeprefix('docs/')})" not in summary:
                if f"(../{path})" not in summary:
                    raise SystemExit(f"site: docs/SUMMARY.md has no line for {path}")
    text = pathlib.Path(api).read_text(encoding="utf-8")
    (book.src / "api.md").write_text(text.replace("(openapi.yaml)", "(files/openapi.yaml)"), encoding="utf-8")
    (book.src / "files").mkdir(exist_ok=True)
    shutil.copyfile(ROOT / "docs/openapi.yaml", book.src / "files/openapi.yaml")
    book = Book(out, in_chinese=True)
    for path, at in CHINESE.items():
        book.page(path, (ROOT / path).read_text(encoding="utf-8"), at)
    (book.src / "SUMMARY.md").write_text(CHINESE_SUMMARY, encoding="utf-8")


class Links(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value is not None:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def check(site):
    pages = {page.resolve(): Links(page.read_text(encoding="utf-8")) for page in sorted(site.rglob("*.html"))}
    faults, checked = [], 0
    for page, parsed in pages.items():
        if page.name in ("404.html", "toc.html"):
            # Their links are from the top of the site, or from the page that shows them.
            continue
        for link in parsed.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            checked += 1
            name, _, anchor = link.partition("#")
            name = urllib.parse.unquote(name.partition("?")[0])
            target = (page.parent / name).resolve() if name else page
            if not target.is_file():
                faults.append(f"{page.relative_to(site.resolve())}: {link} is not there")
            elif target in pages and urllib.parse.unquote(anchor) not in pages[target].anchors:
                faults.append(f"{page.relative_to(site.resolve())}: {link} has no such anchor")
    print(f"site: {len(pages)} pages, {checked} links")
    if faults or checked < 500:
        raise SystemExit("\n".join(faults) or "site: there were more links")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stage", out, api]:
            stage(pathlib.Path(out), api)
        case ["check", built]:
            check(pathlib.Path(built))
        case _:
            raise SystemExit(__doc__)
