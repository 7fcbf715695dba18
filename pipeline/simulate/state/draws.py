"""Draws times; `Random.randint` checks its bounds at each call, which costs more than the rest of a read."""

from collections.abc import Callable
from random import Random


def drawn_between(rng: Random, least: int, most: int) -> Callable[[], int]:
    """A function that draws whole numbers from `least` to `most`, both included: those of `rng.randint`."""
    width = most - least + 1
    bits, bits_of = width.bit_length(), rng.getrandbits

    def draw() -> int:
        above = bits_of(bits)
        while above >= width:
            above = bits_of(bits)
        return least + above

    return draw
