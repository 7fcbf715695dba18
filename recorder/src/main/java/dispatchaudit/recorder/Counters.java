package dispatchaudit.recorder;

import java.util.concurrent.atomic.LongAdder;
import org.apache.pulsar.broker.stats.prometheus.PrometheusRawMetricsProvider;
import org.apache.pulsar.common.util.SimpleTextOutputStream;

/** The recorder's own metrics, on the broker's Prometheus endpoint. */
final class Counters implements PrometheusRawMetricsProvider {
    final LongAdder rowsWritten = new LongAdder();
    final LongAdder gapsWritten = new LongAdder();
    final LongAdder bytesWritten = new LongAdder();
    final LongAdder filesCompleted = new LongAdder();
    final LongAdder filesDeleted = new LongAdder();
    final LongAdder writeErrors = new LongAdder();
    final LongAdder hookErrors = new LongAdder();
    final LongAdder snapshots = new LongAdder();
    private final RowQueue queue;
    private final Drops drops;

    Counters(RowQueue queue, Drops drops) {
        this.queue = queue;
        this.drops = drops;
    }

    /** How many rows wait for the writer. */
    int waiting() {
        return queue.size();
    }

    @Override
    public void generate(SimpleTextOutputStream out) {
        metric(out, "rows_written_total", "counter", rowsWritten.sum());
        metric(out, "rows_dropped_total", "counter", drops.count());
        metric(out, "gaps_written_total", "counter", gapsWritten.sum());
        metric(out, "bytes_written_total", "counter", bytesWritten.sum());
        metric(out, "files_completed_total", "counter", filesCompleted.sum());
        metric(out, "files_deleted_total", "counter", filesDeleted.sum());
        metric(out, "write_errors_total", "counter", writeErrors.sum());
        metric(out, "hook_errors_total", "counter", hookErrors.sum());
        metric(out, "snapshots_total", "counter", snapshots.sum());
        metric(out, "queue_rows", "gauge", waiting());
        metric(out, "queue_capacity_rows", "gauge", queue.capacity());
    }

    private static void metric(SimpleTextOutputStream out, String name, String type, long value) {
        String full = "dispatch_audit_recorder_" + name;
        out.write("# TYPE ").write(full).write(' ').write(type).write('\n');
        out.write(full).write(' ').write(value).write('\n');
    }
}
