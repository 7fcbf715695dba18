package dispatchaudit.recorder;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes rows out of the queue and writes them, on a thread of its own: the only one that ever waits for the disk. Rows that
 * a disk refused count as dropped, those that it had taken since the last flush too, and a gap row names them once the
 * disk takes rows again.
 */
final class Writer implements Runnable {
    private static final Logger log = LoggerFactory.getLogger(Writer.class);
    /** A look at an empty queue costs a switch of threads, so rows are taken in bursts. */
    private static final long IDLE_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long RETRY_NS = TimeUnit.SECONDS.toNanos(1);
    /** Gap rows, and the snapshots that they call for, must not add to the load that made them. */
    private static final long GAPS_NS = TimeUnit.MILLISECONDS.toNanos(250);
    /** Between two looks at the clock. */
    private static final int ROWS_AT_ONCE = 1_000;

    private final RowQueue queue;
    private final Drops drops;
    private final Counters counters;
    private final TraceFolder folder;
    private final Settings settings;
    private final Keys keys;
    private final byte[] broker;
    private final Runnable onBreak;
    /** Rows on their way to the file, of which the last is complete. */
    private final JsonLine lines = new JsonLine();
    private final Drops unflushed = new Drops();
    private final Thread thread;

    private volatile boolean stopping;
    private TraceFile file;
    private long flushedNs;
    private long failedNs;
    private long gapsNs = System.nanoTime() - GAPS_NS;
    private long countedBytes;
    private int waiting;

    /**
     * Returns a writer that does not run yet.
     *
     * @param recorder name of this recorder, for the column {@code broker}
     * @param onBreak called when a file begins and after a gap that lost some, so that the next snapshots have all ranges
     */
    Writer(RowQueue queue, Drops drops, Counters counters, TraceFolder folder, Settings settings, Keys keys,
           String recorder, Runnable onBreak) {
        this.queue = queue;
        this.drops = drops;
        this.counters = counters;
        this.folder = folder;
        this.settings = settings;
        this.keys = keys;
        this.broker = JsonLine.bytesOf("," + JsonLine.member("broker", recorder));
        this.onBreak = onBreak;
        thread = new Thread(this, "dispatch-audit-writer");
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Writes what is in the queue and completes the file; gives up after some seconds, for a disk that hangs. */
    void stop() {
        stopping = true;
        LockSupport.unpark(thread);
        try {
            thread.join(TimeUnit.SECONDS.toMillis(5));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void run() {
        boolean last = false;
        while (!last) {
            last = stopping;
            int rows = 0;
            try {
                rows = drain(last ? Integer.MAX_VALUE : ROWS_AT_ONCE);
                keepUp(last);
            } catch (Throwable e) {
                fail(e);
            }
            if (rows < ROWS_AT_ONCE && !last) {
                LockSupport.parkNanos(IDLE_NS);
            }
        }
    }

    private int drain(int most) throws IOException {
        int rows = 0;
        for (Row row = queue.poll(); row != null; row = ++rows < most ? queue.poll() : null) {
            write(row);
        }
        boolean due = most == Integer.MAX_VALUE || System.nanoTime() - gapsNs >= GAPS_NS;
        if (due && !drops.isEmpty() && isWritable()) {
            gapsNs = System.nanoTime();
            boolean needsSnapshots = false;
            for (Drops.Gap gap : drops.takeGaps()) {
                write(gap);
                needsSnapshots |= gap.needsSnapshot();
                counters.gapsWritten.increment();
            }
            if (needsSnapshots) {
                onBreak.run();
            }
        }
        return rows;
    }

    private void write(Row row) throws IOException {
        unflushed.add(row);
        if (!isWritable()) {
            lose();
            return;
        }
        if (file == null) {
            open();
        }
        row.write(lines, broker, keys);
        waiting++;
        if (lines.size() >= TraceFile.BLOCK) {
            writeLines();
        }
    }

    private void writeLines() throws IOException {
        if (waiting > 0) {
            file.write(lines);
            lines.clear();
            counters.rowsWritten.add(waiting);
            waiting = 0;
        }
        flushed();
    }

    /** After an error the disk is asked again each second, not for each row. */
    private boolean isWritable() {
        return failedNs == 0 || System.nanoTime() - failedNs >= RETRY_NS;
    }

    private void open() throws IOException {
        int deleted = folder.makeRoom(settings.fileBytes());
        counters.filesDeleted.add(deleted);
        file = new TraceFile(folder.nextFile(), settings.compression());
        flushedNs = System.nanoTime();
        countedBytes = 0;
        onBreak.run();
    }

    private void keepUp(boolean last) throws IOException {
        if (file == null) {
            return;
        }
        if (last || file.bytes() >= settings.fileBytes() || file.ageSeconds() >= settings.fileSeconds()) {
            writeLines();
            file.complete();
            counters.filesCompleted.increment();
            flushed();
            file = null;
        } else if (System.nanoTime() - flushedNs >= TimeUnit.MILLISECONDS.toNanos(settings.flushMs())) {
            writeLines();
        }
    }

    private void flushed() {
        counters.bytesWritten.add(file.bytes() - countedBytes);
        countedBytes = file.bytes();
        flushedNs = System.nanoTime();
        unflushed.clear();
        if (failedNs != 0) {
            failedNs = 0;
            log.info("dispatch-audit recorder: writes again; gap rows name what was lost");
        }
    }

    private void fail(Throwable e) {
        counters.writeErrors.increment();
        if (failedNs == 0) {
            log.error("dispatch-audit recorder: cannot write; rows are dropped and counted until it can", e);
        }
        failedNs = System.nanoTime();
        if (file != null) {
            file.abandon();
            file = null;
        }
        lines.clear();
        waiting = 0;
        lose();
    }

    private void lose() {
        drops.addAll(unflushed);
    }
}
