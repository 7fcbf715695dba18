"""Draws when which key is published in one partition."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dispatch_audit.pipeline.simulate.workload.description import KeysDescription, PublishDescription

Int64Array = npt.NDArray[np.int64]


class Arrivals(NamedTuple):
    """The entries of a partition.

    Attributes:
        publish_us: when each is published, ascending.
        keys: the number of its key.
        names: the keys by their number.
    """

    publish_us: Int64Array
    keys: Int64Array
    names: list[bytes]


def arrivals_of(
    keys: KeysDescription, publish: PublishDescription, duration_s: float, partition: int, seed: int
) -> Arrivals:
    """Draws the entries of a partition; equal arguments give equal entries.

    A place is a key that is published at a time. With a lifetime the key of a place is replaced from time to time, the
    places one after the other, so that new keys come at a steady rate.
    """
    rng = np.random.default_rng([seed, partition])
    shares: list[float] = _shares(keys).tolist()
    places = len(shares)
    times, of_place = [], []
    for place in range(places):
        rate = publish.rate_per_s * shares[place]
        number = round(rate * duration_s)
        if publish.arrivals == "poisson":
            gaps = rng.exponential(1 / rate, int(number + 6 * np.sqrt(number) + 10))
            at: npt.NDArray[np.floating[Any]] = np.cumsum(gaps)
            at = at[at < duration_s]
        else:
            # Places publish in turn, not all at one moment.
            at = (np.arange(number) + place / places) / rate
        times.append((at * 1e6).astype(np.int64))
        of_place.append(np.full(at.size, place, np.int64))
    publish_us, place_of = np.concatenate(times), np.concatenate(of_place)
    order = np.argsort(publish_us, kind="stable")
    publish_us, place_of = publish_us[order], place_of[order]
    generation = np.zeros(publish_us.size, np.int64)
    if keys.lifetime_s is not None:
        begun_s = place_of / places * keys.lifetime_s
        generation = ((publish_us / 1e6 + begun_s) // keys.lifetime_s).astype(np.int64)
    numbers, codes = np.unique(generation * places + place_of, return_inverse=True)
    names = [b"key-%d-%d" % (partition, number) for number in numbers.tolist()]
    return Arrivals(publish_us, codes.astype(np.int64), names)


def _shares(keys: KeysDescription) -> npt.NDArray[np.float64]:
    """The share of the traffic that each place has."""
    ranks = np.arange(1, keys.per_partition + 1, dtype=np.float64)
    exponent = keys.exponent if keys.distribution == "zipf" else 0.0
    weights = np.power(ranks, -exponent)
    return np.asarray(weights / weights.sum(), dtype=np.float64)
