package dispatchaudit.recorder;

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.common.api.proto.MessageMetadata;

/**
 * What rows cost without a broker: CPU time of the thread that makes them and of the writer, and garbage of both, for each
 * message of five rows (publish, both sides of a dispatch and of an ack). CPU times of threads hardly change with what else
 * the machine does.
 *
 * <pre>java @target/writer-benchmark.args [rounds [messages]]</pre>
 */
public final class WriterBenchmark {
    private static final com.sun.management.ThreadMXBean THREADS =
            (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final int KEYS = 500;

    private WriterBenchmark() {
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 12;
        int messages = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 100_000;
        Path directory = Files.createTempDirectory("writer-benchmark");
        Properties properties = new Properties();
        properties.setProperty(Settings.PREFIX + "Directory", directory.toString());
        Settings settings = Settings.of(properties);
        Drops drops = new Drops();
        RowQueue queue = new RowQueue(settings.queueRows(), settings.reservedRows(), drops);
        Counters counters = new Counters(queue, drops);
        String name = "127.0.0.1-20261123T124012.310Z";
        TraceFolder folder = new TraceFolder(directory, name, settings.diskBytes(),
                new Manifest("4.2.4", new ServiceConfiguration(), name, "0", settings));
        Writer writer = new Writer(queue, drops, counters, folder, settings, Keys.plain(), name, () -> { });
        writer.start();
        Recording recording = new Recording(settings, queue, drops);
        long writerId = Arrays.stream(THREADS.getThreadInfo(THREADS.getAllThreadIds()))
                .filter(thread -> thread != null && thread.getThreadName().equals("dispatch-audit-writer"))
                .findFirst().orElseThrow().getThreadId();
        long[] writerNs = new long[rounds];
        long[] hookNs = new long[rounds];
        long[] writerBytes = new long[rounds];
        long[] hookBytes = new long[rounds];
        long self = Thread.currentThread().getId();
        for (int round = 0; round < rounds; round++) {
            long before = THREADS.getThreadCpuTime(writerId);
            long garbage = THREADS.getThreadAllocatedBytes(writerId);
            long selfBefore = THREADS.getThreadCpuTime(self);
            long selfGarbage = THREADS.getThreadAllocatedBytes(self);
            traffic(recording, queue, messages);
            hookNs[round] = THREADS.getThreadCpuTime(self) - selfBefore;
            hookBytes[round] = THREADS.getThreadAllocatedBytes(self) - selfGarbage;
            while (queue.size() > 0) {
                Thread.sleep(10);
            }
            writerNs[round] = THREADS.getThreadCpuTime(writerId) - before;
            writerBytes[round] = THREADS.getThreadAllocatedBytes(writerId) - garbage;
        }
        writer.stop();
        System.out.printf("a message: writer %.2f us (%.2f to %.2f), %d bytes of garbage; rows %.2f us, %d bytes;"
                + " %.1f bytes on disk; %d rows dropped%n",
                us(median(writerNs), messages), us(sorted(writerNs)[0], messages),
                us(sorted(writerNs)[rounds - 1], messages), median(writerBytes) / messages,
                us(median(hookNs), messages), median(hookBytes) / messages,
                counters.bytesWritten.sum() / (double) messages / rounds, drops.count());
    }

    /** Makes rows in bursts of 100 messages, as a broker does that reads 100 entries at once. */
    private static void traffic(Recording recording, RowQueue queue, int messages) throws InterruptedException {
        Group topic = Group.of("persistent://public/default/benchmark", null);
        RecordedSubscription subscription =
                new RecordedSubscription(Group.of("persistent://public/default/benchmark", "ks"), null, recording.now());
        RecordedConsumer[] consumers = new RecordedConsumer[4];
        for (int i = 0; i < consumers.length; i++) {
            consumers[i] = new RecordedConsumer(i, subscription, JsonLine.bytesOf(
                    new String(subscription.group().json(), java.nio.charset.StandardCharsets.UTF_8)
                    + RecordedConsumer.columns(i, "consumer-" + i, i)), null);
        }
        MessageMetadata metadata = new MessageMetadata().setProducerName("producer-1").setPublishTime(1);
        for (int begin = 0; begin < messages; begin += 100) {
            for (int i = begin; i < begin + 100; i++) {
                metadata.setSequenceId(i).setPublishTime(System.currentTimeMillis()).setPartitionKey("key-" + i % KEYS);
                recording.put(new Rows.Publish(recording.now(), 7, i, 1_100, new Rows.Message(topic, Keys.Key.of(metadata), 1,
                        metadata.getProducerName(), metadata.getSequenceId(), 0)));
            }
            for (int i = begin; i < begin + 100; i++) {
                metadata.setPartitionKey("key-" + i % KEYS);
                recording.put(new Rows.DispatchStart(
                        recording.now(), consumers[i * 7 % 4], 7, i, 1, null, Keys.Key.of(metadata)));
            }
            for (int i = begin; i < begin + 100; i++) {
                recording.put(new Rows.DispatchEnd(recording.now(), consumers[i * 7 % 4], 7, i, 0));
            }
            for (boolean end : new boolean[] {false, true}) {
                for (int i = begin; i < begin + 100; i++) {
                    recording.put(Rows.OfPositions.ack(recording.now(), consumers[i * 7 % 4], end, false,
                            new Rows.Position[] {new Rows.Position(7, i, null)}));
                }
            }
            while (queue.size() > 50_000) {
                Thread.sleep(1);
            }
        }
    }

    private static double us(long ns, int messages) {
        return ns / 1e3 / messages;
    }

    private static long[] sorted(long[] values) {
        long[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted;
    }

    private static long median(long[] values) {
        return sorted(values)[values.length / 2];
    }
}
