package dispatchaudit.recorder;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.StickyKeyDispatcher;
import org.apache.pulsar.broker.service.persistent.AbstractPersistentDispatcherMultipleConsumers;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.common.api.proto.KeySharedMode;
import org.apache.pulsar.common.policies.data.DrainingHash;
import org.apache.pulsar.common.policies.data.stats.ConsumerStatsImpl;

/** Collects one snapshot under the locks of the broker, and makes its text after they are given back. */
final class SnapshotText {
    private record OfConsumer(RecordedConsumer consumer, String name, int permits, int unacked, List<Range> ranges,
                              int drainingCount, long drainingCleared, int drainingUnacked,
                              List<DrainingHash> draining, String joinedAt, Sent sent) {
    }

    /** Whether a consumer is blocked, how many messages it was sent, and when it last acted: ms since 1970, 0 is never. */
    private record Sent(boolean blocked, long messages, long lastAcked, long lastConsumed, long lastFlow) {
        String json() {
            return ",\"blocked_consumer_on_unacked_msgs\":" + blocked + ",\"msg_out_counter\":" + messages
                    + ",\"last_acked_timestamp\":" + lastAcked + ",\"last_consumed_timestamp\":" + lastConsumed
                    + ",\"last_consumed_flow_timestamp\":" + lastFlow;
        }
    }

    private final Group group;
    private final List<OfConsumer> consumers = new ArrayList<>();
    private Map<Consumer, List<Range>> ranges;
    private Map<String, String> afterMarkDelete;
    private long inReplay;
    private long unacked;
    private long backlog;
    private Position readPosition;
    private Position markDelete;
    private ReadState readState;
    private KeySharedMode mode;
    private boolean outOfOrder;
    private long begin;
    private long end;

    SnapshotText(Group group) {
        this.group = group;
    }

    void subscription(PersistentSubscription subscription, AbstractPersistentDispatcherMultipleConsumers dispatcher,
                      StickyKeyDispatcher keyShared) {
        ManagedCursor cursor = subscription.getCursor();
        inReplay = dispatcher.getNumberOfMessagesInReplay();
        unacked = dispatcher.getTotalUnackedMessages();
        backlog = subscription.getNumberOfEntriesInBacklog(false);
        readPosition = cursor.getReadPosition();
        markDelete = cursor.getMarkDeletedPosition();
        readState = ReadState.of(cursor, dispatcher);
        mode = keyShared.getKeySharedMode();
        outOfOrder = keyShared.isAllowOutOfOrderDelivery();
        ranges = keyShared.getConsumerKeyHashRanges();
        afterMarkDelete = new LinkedHashMap<>();
        Map<Consumer, Position> joined = keyShared.getRecentlyJoinedConsumers();
        if (joined != null) {
            joined.forEach((consumer, position) -> afterMarkDelete.put(consumer.consumerName(), text(position)));
        }
    }

    void consumer(RecordedConsumer known, Consumer consumer) {
        ConsumerStatsImpl stats = consumer.getStats();
        List<DrainingHash> draining = stats.getDrainingHashes() == null ? List.of() : List.copyOf(stats.getDrainingHashes());
        consumers.add(new OfConsumer(known, consumer.consumerName(), consumer.getAvailablePermits(),
                consumer.getUnackedMessages(), ranges == null ? null : ranges.get(consumer),
                stats.getDrainingHashesCount(), stats.getDrainingHashesClearedTotal(),
                stats.getDrainingHashesUnackedMessages(), draining, stats.getReadPositionWhenJoining(),
                new Sent(stats.blockedConsumerOnUnackedMsgs, stats.msgOutCounter, stats.lastAckedTimestamp,
                        stats.lastConsumedTimestamp, stats.lastConsumedFlowTimestamp)));
    }

    /** Notes that the snapshot was taken after a row and before the one after another. */
    void ended(long afterSeq, long untilSeq) {
        begin = afterSeq;
        end = untilSeq;
    }

    /**
     * Returns the columns of the row.
     *
     * @param former ranges of each consumer in the snapshot before, as JSON; those of this one replace them
     */
    String json(Map<Long, String> former) {
        StringBuilder json = new StringBuilder(new String(group.json(), java.nio.charset.StandardCharsets.UTF_8));
        json.append(",\"snapshot\":{\"seq_begin\":").append(begin).append(",\"seq_end\":").append(end)
                .append(",\"msg_in_replay\":").append(inReplay).append(",\"unacked_messages\":").append(unacked)
                .append(",\"msg_backlog\":").append(backlog)
                .append(",\"read_position\":\"").append(text(readPosition))
                .append("\",\"mark_delete_position\":\"").append(text(markDelete)).append('"')
                .append(",\"key_shared_mode\":\"").append(mode).append("\",\"allow_out_of_order_delivery\":")
                .append(outOfOrder).append(readState.json());
        if (!afterMarkDelete.isEmpty()) {
            json.append(",\"consumers_after_mark_delete_position\":{").append(afterMarkDelete.entrySet().stream()
                    .map(entry -> JsonLine.member(entry.getKey(), entry.getValue()))
                    .collect(Collectors.joining(","))).append('}');
        }
        json.append(",\"consumers\":[");
        Set<Long> present = new HashSet<>();
        for (OfConsumer consumer : consumers) {
            json.append(present.isEmpty() ? "" : ",").append(one(consumer, former));
            present.add(consumer.consumer().number());
        }
        former.keySet().retainAll(present);
        return json.append("]}").toString();
    }

    private static String one(OfConsumer found, Map<Long, String> former) {
        long number = found.consumer().number();
        StringBuilder json = new StringBuilder("{\"consumer\":").append(number).append(',')
                .append(JsonLine.member("consumer_name", found.name()))
                .append(",\"available_permits\":").append(found.permits())
                .append(",\"unacked_messages\":").append(found.unacked()).append(found.sent().json());
        String ranges = "[" + (found.ranges() == null ? "" : found.ranges().stream()
                .map(range -> "[" + range.getStart() + "," + range.getEnd() + "]")
                .collect(Collectors.joining(","))) + "]";
        if (!ranges.equals(former.put(number, ranges))) {
            json.append(",\"key_hash_ranges\":").append(ranges);
        }
        json.append(",\"draining_hashes_count\":").append(found.drainingCount())
                .append(",\"draining_hashes_cleared_total\":").append(found.drainingCleared())
                .append(",\"draining_hashes_unacked_messages\":").append(found.drainingUnacked())
                .append(",\"draining_hashes\":[").append(found.draining().stream()
                        .map(hash -> "{\"hash\":" + hash.getHash() + ",\"unacked_messages\":" + hash.getUnackMsgs()
                                + ",\"blocked_attempts\":" + hash.getBlockedAttempts() + "}")
                        .collect(Collectors.joining(","))).append(']');
        if (found.joinedAt() != null) {
            json.append(',').append(JsonLine.member("read_position_when_joining", found.joinedAt()));
        }
        return json.append('}').toString();
    }

    static String text(Position position) {
        return position.getLedgerId() + ":" + position.getEntryId();
    }
}
