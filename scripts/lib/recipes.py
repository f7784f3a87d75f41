"""What scripts/lib/test-recipes reads out of pages, and small checks of answers.

recipes.py block PAGE LANGUAGE [N]       the Nth fenced block of a language (the first one by default)
recipes.py shell PAGE                    all sh blocks, one after the other
recipes.py articles COUNT                a bulk of so many articles, each twice, for the index news-1
recipes.py records COUNT                 the same articles as NDJSON, each with its id
recipes.py crawled DIRECTORY             pages of four articles, one of them under two addresses
recipes.py sizes                         similar counts of the answer of _groups on standard input, as they come
"""

import json
import pathlib
import random
import re
import sys


def blocks(page, language):
    text = pathlib.Path(page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def article(seed):
    """A title and a text that are like those of no other seed."""
    words = "harbour ferry pilot storm quay library author school market council bridge river festival museum team"
    chance = random.Random(seed)
    sentences = (" ".join(chance.choices(words.split(), k=12)) + f" number {seed}{k}." for k in range(5))
    return f"Article {seed}", " ".join(sentences)


def bulk(count):
    for seed in range(count):
        title, content = article(seed)
        for name in (f"{seed}a", f"{seed}b"):
            yield json.dumps({"index": {"_index": "news-1", "_id": name}})
            yield json.dumps({"title": title, "content": content})


def records(count):
    lines = iter(bulk(count))
    for action, source in zip(lines, lines):
        yield json.dumps({"id": json.loads(action)["index"]["_id"], **json.loads(source)})


def crawled(directory):
    for name, seed in (("a", 1), ("b", 2), ("c", 3), ("d", 1)):
        title, content = article(seed)
        pathlib.Path(directory, f"{name}.html").write_text(f"<h1>{title}</h1><p>{content}</p>", encoding="utf-8")


match sys.argv[1:]:
    case ["block", page, language]:
        print(blocks(page, language)[0], end="")
    case ["block", page, language, number]:
        print(blocks(page, language)[int(number) - 1], end="")
    case ["shell", page]:
        print("".join(blocks(page, "sh")), end="")
    case ["articles", count]:
        print("\n".join(bulk(int(count))))
    case ["records", count]:
        print("\n".join(records(int(count))))
    case ["crawled", directory]:
        crawled(directory)
    case ["sizes"]:
        print(*(group["similar_count"] for group in json.load(sys.stdin)["groups"]))
    case _:
        raise SystemExit(__doc__)
