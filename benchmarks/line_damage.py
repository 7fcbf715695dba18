"""Ways in which the line of a row goes bad by chance, for whoever spoils recorded traces.

Each takes the line without its newline, and draws what it does from `dice`; what comes of it may still be good.
"""

import json
import random
from collections.abc import Sequence


def flipped(line: bytes, dice: random.Random, bits: Sequence[int]) -> bytes:
    """Some bits the other way round, as many as one of `bits` says."""
    spoilt = bytearray(line)
    for _ in range(dice.choice(bits)):
        spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
    return bytes(spoilt)


def cut(line: bytes, dice: random.Random) -> bytes:
    """The end is missing."""
    return line[: dice.randrange(1, len(line))]


def noise(line: bytes, dice: random.Random) -> bytes:
    """Something else stands there."""
    return dice.randbytes(dice.randrange(1, len(line)))


def another_value(line: bytes, dice: random.Random, values: Sequence[str]) -> bytes:
    """A field has one of `values`, each as JSON or what looks like it."""
    row = json.loads(line)
    row[dice.choice([*row])] = "the value"
    return json.dumps(row).encode().replace(b'"the value"', _bytes(dice.choice(values)), 1)


def repeated_name(line: bytes, dice: random.Random, values: Sequence[str]) -> bytes:
    """A field stands there a second time, with one of `values`."""
    name: str = dice.choice([*json.loads(line)])
    return line[:-1] + b', "' + name.encode() + b'": ' + _bytes(dice.choice(values)) + b"}"


def _bytes(text: str) -> bytes:
    # Half of a surrogate pair, which a recorder may write too.
    return text.encode(errors="surrogatepass")
