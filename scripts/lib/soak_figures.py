"""Figures of a soak over time: as JSON, whether they grow without end, and as one SVG."""

import statistics
from html import escape

# Of each figure: its title, and by how much it may rise over the second half of a run: a share of itself, and so much
# more.
FIGURES = {
    "rss_mb": ("resident memory, MB", 0.15, 24),
    "files": ("open descriptors", 0.25, 24),
    "threads": ("threads", 0.25, 6),
    "dir_mb": ("data directory, MB", 0.5, 80),
    "redis_mb": ("memory of the Redis masters, MB", 0.2, 16),
    "redis_keys": ("keys of the Redis masters", 0.2, 10_000),
    "nodes": ("nodes of the forests", 0.3, 10_000),
    "points": ("points in time of the node", 0.5, 10),
    "bulk_p50_ms": ("bulk, median, ms", 1.0, 100),
    "bulk_p99_ms": ("bulk, 99th percentile, ms", 2.0, 500),
    "docs_per_s": ("documents acknowledged a second", None, None),
}
COLOURS = ["#1f77b4", "#d95f02"]
MARKS = {"spinney": "#2ca02c", "node": "#7570b3", "Redis": "#c51b7d"}


class Series:
    def __init__(self):
        self.samples, self.events = [], []

    def of(self, name, number, since=0):
        """Moments and values of a figure, of one process where there are several."""
        for sample in self.samples:
            value = sample.get(name)
            value = value[number] if isinstance(value, list) else value
            if sample["t_s"] >= since and value is not None:
                yield sample["t_s"], value

    def numbers(self, name):
        """How many processes have this figure; 0: nobody."""
        values = [sample[name] for sample in self.samples if sample.get(name) is not None]
        return len(values[-1]) if values and isinstance(values[-1], list) else min(1, len(values))

    def rise(self, name, number, since):
        """By how much it rises from `since` to the end, and its median.

        By the median of the differences between samples half that time apart: neither a peak nor a restart moves it.
        """
        values = [value for _, value in self.of(name, number, since)]
        half = len(values) // 2
        if half < 4:
            return 0, 0
        return 2 * statistics.median(b - a for a, b in zip(values, values[half:])), statistics.median(values)

    def growing(self, since, steady):
        """What rises by more than it may.

        `steady` is the process that is not ended in this time. The figures of the others begin anew with each start:
        of them only what they store counts.
        """
        for name, (title, share, more) in FIGURES.items():
            for number in range(self.numbers(name)):
                if share is None or name in ("rss_mb", "files", "threads") and number != steady:
                    continue
                rise, middle = self.rise(name, number, since)
                if rise > share * middle + more:
                    yield f"{title} (process {number + 1}): {rise:.1f} more in the second half, around {middle:.1f}"


def svg(series, title):
    """All figures below each other, over the same minutes."""
    names = [name for name in FIGURES if series.numbers(name)]
    width, height, left, top, gap = 960, 92, 64, 64, 26
    seconds = max([sample["t_s"] for sample in series.samples] or [1]) or 1
    every = seconds / max(1, len(series.samples))
    x = lambda t: left + (width - left - 30) * t / seconds
    total = top + len(names) * (height + gap) + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{total}" fill="white"/>',
        f'<text x="{left}" y="22" font-size="15">{escape(title)}</text>',
    ]
    at = left
    for text, colour in [
        ("process 1", COLOURS[0]),
        ("process 2", COLOURS[1]),
        *((f"end of {of}", MARKS[of]) for of in MARKS),
    ]:
        out.append(
            f'<rect x="{at}" y="34" width="10" height="10" fill="{colour}"/><text x="{at + 14}" y="43">{text}</text>'
        )
        at += 30 + 8 * len(text)
    for row, name in enumerate(names):
        base = top + row * (height + gap) + height
        lines = [list(series.of(name, number)) for number in range(series.numbers(name))]
        most = max([value for line in lines for _, value in line] or [1]) or 1
        y = lambda value: base - (height - 18) * value / most
        out.append(f'<text x="{left}" y="{base - height + 8}" font-weight="bold">{escape(FIGURES[name][0])}</text>')
        for share in (0, 0.5, 1):
            out.append(
                f'<path d="M{left},{y(most * share):.1f}H{width - 30}" stroke="#e5e5e5"/>'
                f'<text x="{left - 6}" y="{y(most * share) + 4:.1f}" text-anchor="end" fill="#555">'
                f"{most * share:{',.0f' if most >= 100 else '.3g'}}</text>"
            )
        for t, what in series.events:
            colour = next((MARKS[of] for of in MARKS if of in what), None)
            if colour:
                out.append(
                    f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{base - height + 18}" y2="{base}" stroke="{colour}" '
                    f'stroke-dasharray="4 2"><title>{escape(what)}</title></line>'
                )
        for number, line in enumerate(lines):
            # A gap stays one.
            path = "".join(
                f"{'L' if n and t - line[n - 1][0] < 3.5 * every else 'M'}{x(t):.1f},{y(value):.1f}"
                for n, (t, value) in enumerate(line)
            )
            out.append(f'<path d="{path}" fill="none" stroke="{COLOURS[number % 2]}" stroke-width="1.4"/>')
    # About ten marks of whole minutes, or of seconds in a short run.
    unit, name = (60, "min") if seconds >= 300 else (1, "s")
    step = max(1, round(seconds / unit / 10))
    for n in range(0, int(seconds / unit) + 1, step):
        out.append(f'<text x="{x(n * unit):.1f}" y="{total - 10}" text-anchor="middle" fill="#555">{n} {name}</text>')
    return "\n".join([*out, "</svg>", ""])
