package dispatchaudit.recorder;

import org.jctools.queues.MpscArrayQueue;

/**
 * Rows on their way from the broker's threads to the writer. To put one in takes an atomic increment and never waits; when
 * the writer does not keep up, rows are dropped and counted. The last places are for rows that an audit needs most.
 */
final class RowQueue {
    private final MpscArrayQueue<Row> rows;
    private final int placesForTraffic;
    private final Drops drops;

    RowQueue(int capacity, int reserved, Drops drops) {
        rows = new MpscArrayQueue<>(capacity);
        placesForTraffic = rows.capacity() - reserved;
        this.drops = drops;
    }

    void put(Row row) {
        boolean taken = row.event.isReserved() ? rows.offer(row) : rows.offerIfBelowThreshold(row, placesForTraffic);
        if (!taken) {
            drops.add(row);
        }
    }

    /** The oldest row; null if there is none. Only the writer's thread calls this. */
    Row poll() {
        return rows.poll();
    }

    int size() {
        return rows.size();
    }

    int capacity() {
        return rows.capacity();
    }
}
