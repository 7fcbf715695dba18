"""Chooses a sample of sticky hashes, vectorized: the hash, the salt and the share decide whether one belongs to it.

    mixed = splitmix64(hash + salted)            64 bits, wrapping; `salted`: 8 bytes of the SHA-256 of the salt
    a hash belongs to the sample of one in n     if the upper 32 bits of `mixed`, times n, are less than 2^32

All keys of a sticky hash belong to the sample or none does, because the rules are about hashes. The order of hashes
says nothing about it, so a sample has its share of each consumer's ranges. Of two samples with one salt the smaller is
a part of the larger, and the samples of two salts have nothing to do with each other.

Source: TRACE_FORMAT, "A sample of the hashes"; the mixing is the output function of SplitMix64 (Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", 2014).
"""

import hashlib
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


class HashSample(NamedTuple):
    """A sample of the sticky hashes of each subscription.

    Attributes:
        one_in: how many hashes there are for each that belongs to the sample; 1: all belong to it.
        salt: chooses which.
    """

    one_in: int = 1
    salt: str = ""

    @property
    def is_all(self) -> bool:
        """Whether all hashes belong to the sample."""
        return self.one_in == 1

    def covers(self, other: "HashSample") -> bool:
        """Whether every hash of another sample belongs to this one."""
        return self.is_all or (self.salt == other.salt and self.one_in <= other.one_in)

    @property
    def share(self) -> str:
        """The share of the hashes, such as `1/64`."""
        return f"1/{self.one_in}"

    def has(self, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of n sticky hashes belong to the sample; none of them is negative."""
        salted = np.frombuffer(hashlib.sha256(self.salt.encode()).digest()[:8], dtype="<u8")
        mixed = hashes.astype(np.uint64) + salted
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        upper = (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(32)
        chosen: NDArray[np.bool_] = upper * np.uint64(self.one_in) < np.uint64(1 << 32)
        return chosen


EVERY_HASH: Final = HashSample()
