"""Chance that falls the same on every machine and in every version of Python.

Only `random.random()` is promised to stay the same between versions, so everything else is made from it.
"""
import random


class Dice:
    def __init__(self, name):
        self._random = random.Random(name)

    def below(self, n):
        return int(self._random.random() * n)

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def chance(self, share):
        return self._random.random() < share

    def pick(self, items):
        return items[self.below(len(items))]

    def some(self, items, n):
        """n of the items, all different, in random order."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(min(n, len(rest)))]
