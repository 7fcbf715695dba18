package dispatchaudit.recorder.broker;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.DoubleBinaryOperator;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;

/**
 * What the recorder costs: three brokers in this JVM, one without it, one that has loaded it and does not record, and one
 * that records, get the same traffic in turns. The second shows what the broker does for any interceptor. A message counts
 * from its send to its acknowledgement by one of four Key_Shared consumers. Clients, brokers and bookies share the machine,
 * so what the recorder takes is missing elsewhere.
 *
 * <pre>java @target/recorder-benchmark.args [rounds [messages [messages for latency, 0: none [setting=value ...]]]]</pre>
 */
public final class RecorderBenchmark {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final com.sun.management.OperatingSystemMXBean PROCESS =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final int CONSUMERS = 4;
    private static final int IN_FLIGHT = 1_000;
    private static final int BYTES = 1_024;
    private static final int KEYS = 500;
    private static final int RATE = 2_000;

    private RecorderBenchmark() {
    }

    /** One broker under test, with the traffic of one way to send. */
    private record Subject(String name, Producer<byte[]> producer, Traffic traffic) {
    }

    /** What the consumers of one subject have to get. */
    private static final class Traffic {
        private volatile CountDownLatch left = new CountDownLatch(0);
        private volatile long[] latenciesNs = new long[0];
        private volatile Throwable failure;
        private final Semaphore inFlight = new Semaphore(IN_FLIGHT);
        private final AtomicInteger seen = new AtomicInteger();

        void received(Consumer<byte[]> consumer, Message<byte[]> message) {
            consumer.acknowledgeAsync(message);
            int at = seen.getAndIncrement();
            long[] into = latenciesNs;
            if (at < into.length) {
                into[at] = System.nanoTime() - Long.parseLong(message.getProperty("sent"));
            }
            inFlight.release();
            left.countDown();
        }

        void expect(int messages) {
            latenciesNs = new long[messages];
            seen.set(0);
            left = new CountDownLatch(messages);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 9;
        int messages = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 30_000;
        int slowly = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 6_000;
        Path directory = Files.createTempDirectory("recorder-benchmark");
        Path nar = Path.of(System.getProperty("recorder.nar")).toAbsolutePath();
        Map<String, String> settings = new HashMap<>(Map.of("dispatchAuditRecorderDirectory", directory.toString()));
        for (int i = 3; i < arguments.length; i++) {
            settings.put("dispatchAuditRecorder" + arguments[i].split("=")[0], arguments[i].split("=")[1]);
        }
        EmbeddedBroker without = EmbeddedBroker.start(null, Map.of());
        EmbeddedBroker off = EmbeddedBroker.start(nar, Map.of("dispatchAuditRecorderEnabled", "false"));
        EmbeddedBroker with = EmbeddedBroker.start(nar, settings);
        try (PulsarClient toWithout = PulsarClient.builder().serviceUrl(without.serviceUrl()).build();
                PulsarClient toOff = PulsarClient.builder().serviceUrl(off.serviceUrl()).build();
                PulsarClient toWith = PulsarClient.builder().serviceUrl(with.serviceUrl()).build()) {
            for (boolean batching : new boolean[] {false, true}) {
                compare(batching, rounds, messages, slowly, subject("without", toWithout, batching),
                        subject("off", toOff, batching), subject("with", toWith, batching));
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static Subject subject(String name, PulsarClient client, boolean batching) throws Exception {
        String topic = "persistent://public/default/benchmark-" + batching;
        Traffic traffic = new Traffic();
        for (int i = 0; i < CONSUMERS; i++) {
            client.newConsumer().topic(topic).subscriptionName("ks").subscriptionType(SubscriptionType.Key_Shared)
                    .messageListener(traffic::received).subscribe();
        }
        return new Subject(name, client.newProducer().topic(topic).enableBatching(batching)
                .batcherBuilder(BatcherBuilder.KEY_BASED).blockIfQueueFull(true).create(), traffic);
    }

    private static void compare(boolean batching, int rounds, int messages, int slowly, Subject... subjects)
            throws Exception {
        System.out.printf("%s, %d byte messages, %d consumers, %d rounds%n",
                batching ? "key-based batching" : "one message an entry", BYTES, CONSUMERS, rounds);
        double[][] throughputs = new double[subjects.length][rounds];
        double[][] latencies = new double[subjects.length][rounds];
        double[][] cpu = new double[subjects.length][rounds];
        double[][] writerCpu = new double[subjects.length][rounds];
        for (int round = -2; round < rounds; round++) {
            for (int turn = 0; turn < subjects.length; turn++) {
                // Each goes first as often as the others.
                int at = (turn + Math.abs(round)) % subjects.length;
                long cpuNs = PROCESS.getProcessCpuTime();
                long writerNs = writerCpuNs();
                double throughput = throughput(subjects[at], messages);
                cpuNs = PROCESS.getProcessCpuTime() - cpuNs;
                writerNs = writerCpuNs() - writerNs;
                double latency = latencyMs(subjects[at], slowly);
                if (round >= 0) {
                    throughputs[at][round] = throughput;
                    latencies[at][round] = latency;
                    cpu[at][round] = cpuNs / 1e3 / messages;
                    writerCpu[at][round] = writerNs / 1e3 / messages;
                }
            }
        }
        for (int at = 0; at < subjects.length; at++) {
            System.out.printf("  %-8s %8.0f messages/s (%s), p99 %6.2f ms at %d messages/s (%s), %.1f CPU us a message"
                    + " (%s), of these %.1f of the writer%n", subjects[at].name(), median(throughputs[at]),
                    spread(throughputs[at]), median(latencies[at]), RATE, spread(latencies[at]), median(cpu[at]),
                    spread(cpu[at]), median(writerCpu[at]));
        }
        for (int at = 1; at < subjects.length; at++) {
            System.out.printf("  %s to %s, medians and quartiles of the pairs: throughput %s, p99 %s, CPU us a message %s%n",
                    subjects[at].name(), subjects[0].name(), middle(pairs(throughputs, at, (a, b) -> a / b)),
                    middle(pairs(latencies, at, (a, b) -> a / b)), middle(pairs(cpu, at, (a, b) -> a - b)));
        }
    }

    private static long writerCpuNs() {
        for (ThreadInfo thread : THREADS.dumpAllThreads(false, false, 0)) {
            if (thread.getThreadName().equals("dispatch-audit-writer")) {
                return THREADS.getThreadCpuTime(thread.getThreadId());
            }
        }
        return 0;
    }

    private static double throughput(Subject subject, int messages) throws Exception {
        subject.traffic().expect(messages);
        long begin = System.nanoTime();
        for (int i = 0; i < messages; i++) {
            subject.traffic().inFlight.acquire();
            send(subject, i);
        }
        await(subject);
        return messages / ((System.nanoTime() - begin) / 1e9);
    }

    private static double latencyMs(Subject subject, int messages) throws Exception {
        if (messages == 0) {
            return Double.NaN;
        }
        subject.traffic().expect(messages);
        long begin = System.nanoTime();
        for (int i = 0; i < messages; i++) {
            long due = begin + i * (1_000_000_000L / RATE);
            while (System.nanoTime() < due) {
                Thread.sleep(0, 200_000);
            }
            subject.traffic().inFlight.acquire();
            send(subject, i);
        }
        await(subject);
        long[] latencies = subject.traffic().latenciesNs;
        Arrays.sort(latencies);
        return latencies[(int) (latencies.length * 0.99)] / 1e6;
    }

    private static void send(Subject subject, int number) {
        subject.producer().newMessage().key("key-" + number % KEYS).value(new byte[BYTES])
                .property("sent", Long.toString(System.nanoTime())).sendAsync().exceptionally(e -> {
                    subject.traffic().failure = e;
                    return null;
                });
    }

    private static void await(Subject subject) throws Exception {
        if (!subject.traffic().left.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException(subject.traffic().left.getCount() + " messages of the broker \""
                    + subject.name() + "\" never arrived; first send that failed: " + subject.traffic().failure);
        }
    }

    /** Compares each round of a subject with that of the first one. */
    private static double[] pairs(double[][] of, int at, DoubleBinaryOperator how) {
        double[] pairs = new double[of[0].length];
        for (int i = 0; i < pairs.length; i++) {
            pairs[i] = how.applyAsDouble(of[at][i], of[0][i]);
        }
        return pairs;
    }

    private static double median(double[] values) {
        return quantile(values, 0.5);
    }

    private static double quantile(double[] values, double share) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[(int) Math.round((sorted.length - 1) * share)];
    }

    private static String spread(double[] values) {
        return "%.2f to %.2f".formatted(quantile(values, 0), quantile(values, 1));
    }

    private static String middle(double[] pairs) {
        return "%.3f (%.3f to %.3f)".formatted(median(pairs), quantile(pairs, 0.25), quantile(pairs, 0.75));
    }
}
