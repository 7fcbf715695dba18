package dispatchaudit.recorder;

import com.google.common.collect.MapMaker;
import io.netty.buffer.ByteBuf;
import io.netty.util.concurrent.FastThreadLocal;
import java.io.IOException;
import java.util.Base64;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.broker.service.Producer;
import org.apache.pulsar.common.api.proto.CompressionType;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.api.proto.SingleMessageMetadata;
import org.apache.pulsar.common.compression.CompressionCodecProvider;

/**
 * Reads the keys of the messages in a batch. It looks into the first batches of each producer and into few of those that
 * follow: the longer a look takes, the more batches go by without one, so that looks cost an entry a bounded time.
 */
final class BatchKeys {
    private static final int FIRST = 10;
    private static final int EVERY_MIN = 100;
    /** What looks may cost on average for a batch that is not among the first ones of its producer. */
    private static final int NS_A_BATCH = 50;
    /** The share of a core that looks into first batches may take: clients in a loop make producers by the thousand. */
    private static final int FIRST_PERCENT = 1;
    /** What they may take at once; the first looks of a broker load the codecs. */
    private static final long FIRST_NS_AT_ONCE = TimeUnit.MILLISECONDS.toNanos(500);
    private static final int MESSAGES_MAX = 10_000;
    /** Clients batch 128 KB by default; a client may claim any size, and the codec takes so much memory. */
    private static final int BYTES_MAX = 1 << 20;

    private static final FastThreadLocal<SingleMessageMetadata> SINGLE = new FastThreadLocal<>() {
        @Override
        protected SingleMessageMetadata initialValue() {
            return new SingleMessageMetadata();
        }
    };

    private final ConcurrentMap<Producer, Turn> turns = new MapMaker().weakKeys().makeMap();
    private final long startedNs = System.nanoTime();
    /** What looks into first batches have taken; time that they left unused counts as taken, but for some. */
    private final AtomicLong firstNs = new AtomicLong(-FIRST_NS_AT_ONCE);

    /** Which batch of a producer is looked into next. Only the thread of its connection uses it. */
    private static final class Turn {
        private int first = FIRST;
        private long goBy;
    }

    /**
     * Returns the key of each message, null for one without a key; null: the batch is not looked into, or cannot be read.
     *
     * @param metadata of an entry of several messages
     * @param payload of the entry, whose reader index stays where it is
     */
    String[] of(Producer producer, MessageMetadata metadata, ByteBuf payload) {
        Turn turn = turns.computeIfAbsent(producer, any -> new Turn());
        if (turn.goBy > 0) {
            turn.goBy--;
            return null;
        }
        long begun = System.nanoTime();
        boolean isFirst = turn.first > 0;
        if (isFirst && !mayLookAtFirst(begun)) {
            return null;
        }
        String[] keys = read(metadata, payload);
        long took = System.nanoTime() - begun;
        if (isFirst) {
            turn.first--;
            firstNs.addAndGet(took);
        } else {
            turn.goBy = Math.max(EVERY_MIN, took / NS_A_BATCH);
        }
        return keys;
    }

    private boolean mayLookAtFirst(long nowNs) {
        long allowed = (nowNs - startedNs) / 100 * FIRST_PERCENT;
        return firstNs.updateAndGet(taken -> Math.max(taken, allowed - FIRST_NS_AT_ONCE)) < allowed;
    }

    private static String[] read(MessageMetadata metadata, ByteBuf payload) {
        int messages = metadata.getNumMessagesInBatch();
        boolean isPlain = metadata.getCompression() == CompressionType.NONE;
        int size = isPlain ? payload.readableBytes() : metadata.getUncompressedSize();
        if (metadata.getEncryptionKeysCount() > 0 || messages > MESSAGES_MAX || size < 0 || size > BYTES_MAX) {
            return null;
        }
        ByteBuf bytes = null;
        try {
            bytes = isPlain ? payload.retainedSlice()
                    : CompressionCodecProvider.getCompressionCodec(metadata.getCompression()).decode(payload.slice(), size);
            String[] keys = new String[messages];
            SingleMessageMetadata single = SINGLE.get();
            for (int at = 0; at < messages; at++) {
                single.parseFrom(bytes, (int) bytes.readUnsignedInt());
                String key = single.hasOrderingKey() ? Base64.getEncoder().encodeToString(single.getOrderingKey())
                        : single.hasPartitionKey() ? single.getPartitionKey() : null;
                // Most batches repeat few keys, and a row may wait long for the writer.
                keys[at] = key != null && at > 0 && key.equals(keys[at - 1]) ? keys[at - 1] : key;
                bytes.skipBytes(single.getPayloadSize());
            }
            return keys;
        } catch (IOException | RuntimeException e) {
            // The client wrote something else than it says; consumers will find that too.
            return null;
        } finally {
            if (bytes != null) {
                bytes.release();
            }
        }
    }
}
