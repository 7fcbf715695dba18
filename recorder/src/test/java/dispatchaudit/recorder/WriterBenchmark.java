package dispatchaudit.recorder;

import dispatchaudit.recorder.broker.EmbeddedBroker;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.util.concurrent.FastThreadLocalThread;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.impl.EntryImpl;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Producer;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.broker.service.Topic;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.api.proto.CommandAck;
import org.apache.pulsar.common.api.proto.CommandMessage;
import org.apache.pulsar.common.api.proto.CommandSubscribe;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.api.proto.SingleMessageMetadata;
import org.apache.pulsar.common.protocol.Commands;

/**
 * What hooks and writer cost for a message that is published, sent once and acknowledged by itself (five rows): CPU time of
 * the thread that calls the hooks and of the writer, and garbage of both. The hooks get the producer, the consumers and the
 * connections of a broker that idles; what they are called with is made outside of the measured time. Entries may be batches
 * that mix keys: then all figures are for an entry.
 *
 * <pre>java @target/writer-benchmark.args [rounds [entries [messages of an entry [setting=value ...]]]]</pre>
 */
public final class WriterBenchmark {
    private static final com.sun.management.ThreadMXBean THREADS =
            (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final String TOPIC = "persistent://public/default/benchmark";
    private static final String[] HOOKS = {"publish begins", "published", "dispatch starts", "dispatched", "ack starts", "acked"};
    private static final int CONSUMERS = 4;
    private static final int KEYS = 500;
    /** As many entries as a broker reads at once. */
    private static final int BURST = 100;

    private final Parts parts;
    private final Producer producer;
    private final List<Consumer> consumers;
    private final long[][] hookNs;
    private final long[] hookBytes;
    private final long[] writerNs;
    private final long[] writerBytes;

    private WriterBenchmark(Parts parts, Producer producer, List<Consumer> consumers, int rounds) {
        this.parts = parts;
        this.producer = producer;
        this.consumers = consumers;
        hookNs = new long[HOOKS.length][rounds];
        hookBytes = new long[rounds];
        writerNs = new long[rounds];
        writerBytes = new long[rounds];
    }

    /** A context of a publish as the broker has it: a map that is made for the first property. */
    private static final class Context implements Topic.PublishContext {
        private Map<String, Object> properties;

        @Override
        public void completed(Exception e, long ledgerId, long entryId) {
        }

        @Override
        public long getMsgSize() {
            return 1_100;
        }

        @Override
        public void setProperty(String name, Object value) {
            if (properties == null) {
                properties = new HashMap<>();
            }
            properties.put(name, value);
        }

        @Override
        public Object getProperty(String name) {
            return properties == null ? null : properties.get(name);
        }
    }

    /** What the broker calls the hooks with for one message. */
    private record Message(ByteBuf headersAndPayload, Context context, Entry entry, MessageMetadata metadata, Consumer consumer,
                           CommandMessage sent, CommandAck ack) {
        static Message of(int number, int messages, Consumer consumer) {
            MessageMetadata metadata = new MessageMetadata().setProducerName("producer-1").setSequenceId(number)
                    .setPublishTime(System.currentTimeMillis()).setPartitionKey("key-" + number % KEYS);
            ByteBuf payload = Unpooled.wrappedBuffer(new byte[1_024]);
            if (messages > 1) {
                metadata.setNumMessagesInBatch(messages);
                payload = batch(number, messages);
            }
            ByteBuf bytes = Commands.serializeMetadataAndPayload(Commands.ChecksumType.Crc32c, metadata, payload);
            CommandMessage sent = new CommandMessage().setConsumerId(consumer.consumerId());
            sent.setMessageId().setLedgerId(7).setEntryId(number);
            CommandAck ack = new CommandAck().setConsumerId(consumer.consumerId()).setAckType(CommandAck.AckType.Individual);
            ack.addMessageId().setLedgerId(7).setEntryId(number);
            return new Message(bytes, new Context(), EntryImpl.create(7, number, new byte[0]), metadata, consumer, sent, ack);
        }

        private static ByteBuf batch(int number, int messages) {
            ByteBuf batch = Unpooled.buffer();
            for (int at = 0; at < messages; at++) {
                SingleMessageMetadata single = new SingleMessageMetadata().setPartitionKey("key-" + (number + at) % KEYS);
                Commands.serializeSingleMessageInBatchWithPayload(single, Unpooled.wrappedBuffer(new byte[100]), batch);
            }
            return batch;
        }

        ServerCnx connection() {
            return (ServerCnx) consumer.cnx();
        }
    }

    public static void main(String[] arguments) {
        // As the broker's threads are: what Netty keeps for each thread is found faster there than on others.
        new FastThreadLocalThread(() -> {
            int status = 1;
            try {
                run(arguments);
                status = 0;
            } catch (Throwable e) {
                e.printStackTrace();
            }
            // Threads of the broker outlive it.
            Runtime.getRuntime().halt(status);
        }).start();
    }

    private static void run(String[] arguments) throws Exception {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 12;
        int entries = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 100_000;
        int messages = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1;
        Properties properties = new Properties();
        properties.setProperty(Settings.PREFIX + "SnapshotMs", "0");
        properties.setProperty(Settings.PREFIX + "Directory", Files.createTempDirectory("writer-benchmark").toString());
        for (int i = 3; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            properties.setProperty(Settings.PREFIX + setting[0], setting[1]);
        }
        EmbeddedBroker broker = EmbeddedBroker.start(null, Map.of());
        try (PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            for (int i = 0; i < CONSUMERS; i++) {
                client.newConsumer().topic(TOPIC).subscriptionName("ks").consumerName("consumer-" + i)
                        .subscriptionType(SubscriptionType.Key_Shared).subscribe();
            }
            client.newProducer().topic(TOPIC).producerName("producer-1").create();
            Topic topic = broker.service().getBrokerService().getTopicReference(TOPIC).orElseThrow();
            List<Consumer> consumers = topic.getSubscription("ks").getConsumers();
            Producer producer = topic.getProducers().values().iterator().next();
            Parts parts = Parts.start(broker.service(), Settings.of(properties));
            for (Consumer consumer : consumers) {
                parts.membership().subscribe(new CommandSubscribe().setTopic(TOPIC).setSubscription("ks").setRequestId(1)
                        .setConsumerId(consumer.consumerId()).setSubType(CommandSubscribe.SubType.Key_Shared),
                        (ServerCnx) consumer.cnx());
                parts.membership().joined(consumer, (ServerCnx) consumer.cnx());
            }
            new WriterBenchmark(parts, producer, consumers, rounds).measure(entries, messages);
            parts.stop();
        }
    }

    private void measure(int entries, int messages) throws Exception {
        long writer = Arrays.stream(THREADS.getThreadInfo(THREADS.getAllThreadIds()))
                .filter(thread -> thread != null && thread.getThreadName().equals("dispatch-audit-writer"))
                .findFirst().orElseThrow().getThreadId();
        for (int round = 0; round < writerNs.length; round++) {
            long ns = THREADS.getThreadCpuTime(writer);
            long bytes = THREADS.getThreadAllocatedBytes(writer);
            for (int begin = 0; begin < entries; begin += BURST) {
                burst(round, begin, messages);
                waitForWriter(50_000);
            }
            waitForWriter(0);
            writerNs[round] = THREADS.getThreadCpuTime(writer) - ns;
            writerBytes[round] = THREADS.getThreadAllocatedBytes(writer) - bytes;
        }
        long[] hooks = new long[writerNs.length];
        Arrays.setAll(hooks, round -> Arrays.stream(hookNs).mapToLong(ofHook -> ofHook[round]).sum());
        System.out.printf("%s: hooks %s, %d bytes of garbage; writer %s, %d bytes; %.1f bytes on disk%n",
                messages == 1 ? "a message" : "a batch of " + messages, us(hooks, entries), median(hookBytes) / entries,
                us(writerNs, entries), median(writerBytes) / entries,
                parts.counters().bytesWritten.sum() / (double) entries / writerNs.length);
        for (int hook = 0; hook < HOOKS.length; hook++) {
            System.out.printf("  %-15s %s%n", HOOKS[hook], us(hookNs[hook], entries));
        }
    }

    /** The hooks of as many messages as a broker reads at once, one hook after the other. */
    private void burst(int round, int begin, int messages) throws Exception {
        List<Message> burst = new ArrayList<>(BURST);
        for (int number = begin; number < begin + BURST; number++) {
            burst.add(Message.of(number, messages, consumers.get(number * 7 % CONSUMERS)));
        }
        Traffic traffic = parts.traffic();
        long bytes = THREADS.getCurrentThreadAllocatedBytes();
        long[] ns = new long[HOOKS.length + 1];
        ns[0] = THREADS.getCurrentThreadCpuTime();
        for (Message message : burst) {
            traffic.publishBegins(producer, message.headersAndPayload(), message.context());
        }
        ns[1] = THREADS.getCurrentThreadCpuTime();
        for (Message message : burst) {
            traffic.published(7, message.entry().getEntryId(), message.context());
        }
        ns[2] = THREADS.getCurrentThreadCpuTime();
        for (Message message : burst) {
            traffic.dispatchStarts(message.entry(), null, message.metadata(), message.consumer());
        }
        ns[3] = THREADS.getCurrentThreadCpuTime();
        for (Message message : burst) {
            traffic.dispatched(message.sent(), message.connection());
        }
        ns[4] = THREADS.getCurrentThreadCpuTime();
        for (Message message : burst) {
            traffic.ackStarts(message.ack(), message.connection());
        }
        ns[5] = THREADS.getCurrentThreadCpuTime();
        for (Message message : burst) {
            traffic.acked(message.consumer(), message.ack());
        }
        ns[6] = THREADS.getCurrentThreadCpuTime();
        hookBytes[round] += THREADS.getCurrentThreadAllocatedBytes() - bytes;
        for (int hook = 0; hook < HOOKS.length; hook++) {
            hookNs[hook][round] += ns[hook + 1] - ns[hook];
        }
        for (Message message : burst) {
            message.headersAndPayload().release();
            message.entry().release();
        }
    }

    /** The queue has places for more rows than this leaves in it, so none is dropped. */
    private void waitForWriter(int rowsLeft) throws InterruptedException {
        while (parts.counters().waiting() > rowsLeft) {
            Thread.sleep(1);
        }
    }

    private static long median(long[] values) {
        return sorted(values)[values.length / 2];
    }

    private static long[] sorted(long[] values) {
        long[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted;
    }

    private static String us(long[] ns, int entries) {
        long[] sorted = sorted(ns);
        return "%.2f us (%.2f to %.2f)".formatted(
                median(ns) / 1e3 / entries, sorted[0] / 1e3 / entries, sorted[sorted.length - 1] / 1e3 / entries);
    }
}
