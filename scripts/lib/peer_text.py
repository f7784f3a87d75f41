"""The text of a document as the peers get it: without tags, and in shingles."""

import re
import unicodedata

WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def without_tags(text):
    return TAGS.sub(" ", text)


def shingles(text):
    """Word triples of a text without tags, in order; of one mostly in Chinese or Japanese, runs of five characters."""
    words = WORDS.findall(unicodedata.normalize("NFKC", text).lower())
    # Words sort by their first character, so only a text that has such characters is counted.
    single = sum(word >= "\u3040" for word in words) if max(words, default="") >= "\u3040" else 0
    size = 5 if 2 * single > len(words) else 3
    if len(words) <= size:
        return [" ".join(words)]
    return list(map(" ".join, zip(*(words[at:] for at in range(size)))))
