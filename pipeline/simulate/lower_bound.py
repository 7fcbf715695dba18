"""The ideal lower bound of the makespan: work over consumers, and the serial bound of a key (Q24)."""

from dispatch_audit.pipeline.simulate.workload.partition_workload import PartitionWorkload


def makespan_bound_us(workload: PartitionWorkload) -> int:
    """The least time from the first publish to the last acknowledgement, however entries are dispatched.

    Two bounds hold for every dispatcher that keeps the order of keys, and the larger one is returned: messages of a key
    follow each other, none before it was published, unless some client takes all messages at once; and all threads of
    all clients together cannot do more than one message each at a time. An entry without a processing time of its own
    takes that of the fastest client. The times of network and broker are left out, as are hangs.
    """
    publish_us = workload.publish_us
    if not len(publish_us):
        return 0
    fastest_us = min(client.service_us for client in workload.clients)
    threads = [client.threads for client in workload.clients]
    own = workload.service_us
    in_turn = all(number >= 0 for number in threads)
    done_us: dict[int, int] = {}
    latest_us = work_us = 0
    for at, (since_us, key) in enumerate(zip(publish_us, workload.keys, strict=True)):
        service_us = fastest_us if own is None or own[at] < 0 else own[at]
        done_us[key] = end_us = max(since_us, done_us.get(key, 0) if in_turn else 0) + service_us
        latest_us = max(latest_us, end_us)
        work_us += service_us
    by_threads_us = work_us // sum(threads) if all(number > 0 for number in threads) else 0
    return max(latest_us - publish_us[0], by_threads_us)
