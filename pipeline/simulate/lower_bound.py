"""The ideal lower bound of the makespan: work over consumers, and the serial bound of a key (Q24)."""

import numpy as np
import numpy.typing as npt

from dispatch_audit.pipeline.simulate.workload.partition_workload import PartitionWorkload

_Times = npt.NDArray[np.int64]


def makespan_bound_us(workload: PartitionWorkload) -> int:
    """The least time from the first publish to the last acknowledgement, however entries are dispatched.

    Two bounds hold for every dispatcher that keeps the order of keys, and the larger one is returned: messages of a key
    follow each other, none before it was published, unless some client takes all messages at once; and all threads of
    all clients together cannot do more than one message each at a time. An entry without a processing time of its own
    takes that of the fastest client. The times of network and broker are left out, as are hangs.
    """
    publish_us = np.asarray(workload.publish_us, np.int64)
    if not publish_us.size:
        return 0
    fastest_us = min(client.service_us for client in workload.clients)
    own_us = np.asarray([-1] if workload.service_us is None else workload.service_us, np.int64)
    service_us = np.broadcast_to(np.where(own_us < 0, fastest_us, own_us), publish_us.shape)
    threads = [client.threads for client in workload.clients]
    if all(number >= 0 for number in threads):
        done_us = _done_in_turn(publish_us, service_us, np.asarray(workload.keys, np.int64))
    else:
        done_us = publish_us + service_us
    by_threads_us = int(service_us.sum()) // sum(threads) if all(number > 0 for number in threads) else 0
    return max(int(done_us.max() - publish_us[0]), by_threads_us)


def _done_in_turn(publish_us: _Times, service_us: _Times, keys: _Times) -> _Times:
    """When each entry is done if those of a key follow each other, ordered by key."""
    order = np.argsort(keys, kind="stable")
    group = np.cumsum(np.diff(keys[order], prepend=keys[order[0]]) != 0)
    work_us = np.cumsum(service_us[order])
    # Entry i of a key is done at the maximum, over its entries j <= i, of publish[j] plus the work of j to i.
    idle_us = publish_us[order] - (work_us - service_us[order])
    # Values of each key are shifted above those of the keys before it, so that one running maximum serves for all.
    apart_us = group * (np.ptp(idle_us) + 1)
    begun_us: _Times = np.maximum.accumulate(idle_us + apart_us) - apart_us
    return begun_us + work_us
