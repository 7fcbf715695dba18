"""Damages lines of recorded traces at random.

Each function takes a line without its newline and draws the damage from `dice`; the result may still be a good row.
"""

import json
import random
from collections.abc import Sequence


def flipped(line: bytes, dice: random.Random, bits: Sequence[int]) -> bytes:
    """Returns the line with some bits flipped; `bits` has the possible numbers of them."""
    spoilt = bytearray(line)
    for _ in range(dice.choice(bits)):
        spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
    return bytes(spoilt)


def cut(line: bytes, dice: random.Random) -> bytes:
    """Returns the line without its end."""
    return line[: dice.randrange(1, len(line))]


def noise(line: bytes, dice: random.Random) -> bytes:
    """Returns random bytes instead of the line."""
    return dice.randbytes(dice.randrange(1, len(line)))


def another_value(line: bytes, dice: random.Random, values: Sequence[str]) -> bytes:
    """Returns the line with one of `values`, JSON or similar texts, in one field."""
    row = json.loads(line)
    row[dice.choice([*row])] = "the value"
    return json.dumps(row).encode().replace(b'"the value"', _bytes(dice.choice(values)), 1)


def repeated_name(line: bytes, dice: random.Random, values: Sequence[str]) -> bytes:
    """Returns the line with a field repeated, with one of `values`."""
    name: str = dice.choice([*json.loads(line)])
    return line[:-1] + b', "' + name.encode() + b'": ' + _bytes(dice.choice(values)) + b"}"


def _bytes(text: str) -> bytes:
    # Half of a surrogate pair, which a recorder may write too.
    return text.encode(errors="surrogatepass")
