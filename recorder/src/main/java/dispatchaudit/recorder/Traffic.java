package dispatchaudit.recorder;

import io.netty.buffer.ByteBuf;
import io.netty.util.concurrent.FastThreadLocal;
import java.util.Arrays;
import java.util.function.IntFunction;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Producer;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.broker.service.Topic;
import org.apache.pulsar.common.api.proto.CommandAck;
import org.apache.pulsar.common.api.proto.CommandMessage;
import org.apache.pulsar.common.api.proto.CommandRedeliverUnacknowledgedMessages;
import org.apache.pulsar.common.api.proto.MessageIdData;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.protocol.Commands;

/** Rows of publishes, dispatches, acks and redeliver requests: the hooks that run for every entry. */
final class Traffic {
    /** Under this name a message waits at its context until its position is known. */
    private static final String MESSAGE = "dispatchaudit.recorder.message";

    private static final FastThreadLocal<MessageMetadata> METADATA = new FastThreadLocal<>() {
        @Override
        protected MessageMetadata initialValue() {
            return new MessageMetadata();
        }
    };

    private final Recording recording;
    private final Consumers consumers;
    private final HashSample sample;
    private final BatchKeys batchKeys = new BatchKeys();

    /**
     * Returns what makes rows of traffic.
     *
     * @param sample the hashes whose rows are recorded
     */
    Traffic(Recording recording, Consumers consumers, HashSample sample) {
        this.recording = recording;
        this.consumers = consumers;
        this.sample = sample;
    }

    void publishBegins(Producer producer, ByteBuf headersAndPayload, Topic.PublishContext context) {
        Group topic = context.isMarkerMessage() ? null : recording.publishesOf(producer.getTopic().getName());
        if (topic == null) {
            return;
        }
        MessageMetadata metadata = METADATA.get();
        int from = headersAndPayload.readerIndex();
        String[] keys = null;
        Keys.Key key;
        try {
            Commands.parseMessageMetadata(headersAndPayload, metadata);
            key = Keys.Key.of(metadata);
            if (!sample.hasAny(key.bytes())) {
                return;
            }
            if (metadata.getNumMessagesInBatch() > 1) {
                keys = batchKeys.of(producer, metadata, headersAndPayload);
            }
        } finally {
            headersAndPayload.readerIndex(from);
        }
        String name = recording.leavesOut(Settings.PRODUCER_NAME) ? null : producer.getProducerName();
        context.setProperty(MESSAGE, new Rows.Message(topic, key, metadata.getNumMessagesInBatch(), keys, name,
                metadata.getSequenceId(), metadata.hasDeliverAtTime() ? metadata.getDeliverAtTime() : 0,
                metadata.hasTxnidMostBits()
                        ? new Rows.Transaction(metadata.getTxnidMostBits(), metadata.getTxnidLeastBits()) : null));
    }

    void published(long ledgerId, long entryId, Topic.PublishContext context) {
        if (ledgerId >= 0 && entryId >= 0 && context.getProperty(MESSAGE) instanceof Rows.Message message) {
            recording.put(new Rows.Publish(recording.now(), ledgerId, entryId, context.getMsgSize(), message));
        }
    }

    /** Runs under the dispatcher's lock: it asks nothing of the subscription. */
    void dispatchStarts(Entry entry, long[] ackSet, MessageMetadata metadata, Consumer consumer) {
        RecordedConsumer recorded = consumer == null ? null : consumers.of(consumer);
        if (recorded != null && metadata != null) {
            Keys.Key key = Keys.Key.of(metadata);
            if (isOfSample(recorded.subscription(), entry, key)) {
                recording.put(new Rows.DispatchStart(recording.now(), recorded, entry.getLedgerId(), entry.getEntryId(),
                        metadata.getNumMessagesInBatch(), ackSet, key));
            }
        }
    }

    /** Whether the rows of an entry are recorded; later rows of it, which have its position only, follow from that. */
    private boolean isOfSample(RecordedSubscription subscription, Entry entry, Keys.Key key) {
        if (sample.isAll()) {
            return true;
        }
        int hash = subscription.hashOf(key.bytes());
        boolean has = hash < 0 || sample.has(hash);
        if (has) {
            subscription.others().remove(entry.getLedgerId(), entry.getEntryId());
        } else {
            subscription.others().add(entry.getLedgerId(), entry.getEntryId());
        }
        return has;
    }

    private boolean isOther(RecordedConsumer consumer, MessageIdData id) {
        return !sample.isAll() && consumer.subscription().others().has(id.getLedgerId(), id.getEntryId());
    }

    void dispatched(CommandMessage command, ServerCnx connection) {
        RecordedConsumer recorded = consumers.of(connection, command.getConsumerId());
        MessageIdData id = command.getMessageId();
        if (recorded != null && !isOther(recorded, id)) {
            recording.put(new Rows.DispatchEnd(recording.now(), recorded, id.getLedgerId(), id.getEntryId(),
                    command.getRedeliveryCount()));
        }
    }

    void ackStarts(CommandAck command, ServerCnx connection) {
        RecordedConsumer recorded = consumers.of(connection, command.getConsumerId());
        if (recorded != null) {
            ack(command, recorded, false);
        }
    }

    void acked(Consumer consumer, CommandAck command) {
        RecordedConsumer recorded = consumers.of(consumer);
        if (recorded != null) {
            ack(command, recorded, true);
        }
    }

    private void ack(CommandAck command, RecordedConsumer consumer, boolean end) {
        Rows.Position[] positions = positions(consumer, command.getMessageIdsCount(), command::getMessageIdAt);
        if (positions.length > 0) {
            recording.put(Rows.OfPositions.ack(recording.now(), consumer, end,
                    command.getAckType() == CommandAck.AckType.Cumulative, positions,
                    command.hasTxnidMostBits()
                            ? new Rows.Transaction(command.getTxnidMostBits(), command.getTxnidLeastBits()) : null));
        }
    }

    /** The row of a request to send entries again; null if its consumer is not recorded. */
    Row redeliver(CommandRedeliverUnacknowledgedMessages command, ServerCnx connection) {
        RecordedConsumer recorded = consumers.of(connection, command.getConsumerId());
        if (recorded == null) {
            return null;
        }
        Rows.Position[] positions = positions(recorded, command.getMessageIdsCount(), command::getMessageIdAt);
        // Without a position it is about all that the consumer holds.
        return positions.length == 0 && command.getMessageIdsCount() > 0 ? null
                : Rows.OfPositions.redeliver(recording.now(), recorded, positions);
    }

    /** The positions of a command that are recorded, copied, because commands are used again for others. */
    private Rows.Position[] positions(RecordedConsumer consumer, int count, IntFunction<MessageIdData> ids) {
        Rows.Position[] positions = new Rows.Position[count];
        int recorded = 0;
        for (int at = 0; at < count; at++) {
            MessageIdData id = ids.apply(at);
            if (isOther(consumer, id)) {
                continue;
            }
            long[] ackSet = null;
            if (id.getAckSetsCount() > 0) {
                ackSet = new long[id.getAckSetsCount()];
                for (int i = 0; i < ackSet.length; i++) {
                    ackSet[i] = id.getAckSetAt(i);
                }
            }
            positions[recorded++] = new Rows.Position(id.getLedgerId(), id.getEntryId(), ackSet);
        }
        return recorded == count ? positions : Arrays.copyOf(positions, recorded);
    }
}
