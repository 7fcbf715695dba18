package dispatchaudit.recorder;

import java.nio.charset.StandardCharsets;
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
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.common.policies.data.stats.ConsumerStatsImpl;

/** Collects one snapshot under the locks of the broker, and makes its text after they are given back. */
final class SnapshotText {
    /** What the last snapshot says of a consumer: its ranges, null if the broker has none, and all else as JSON by name. */
    record Former(HashRanges ranges, Map<String, String> others) {
    }

    /** What the broker says of a consumer; no ranges or draining hashes: it does not say. */
    private record OfConsumer(RecordedConsumer consumer, Map<String, Object> values, List<Range> ranges, List<?> draining) {
    }

    private final Group group;
    private final Map<String, Object> values = new LinkedHashMap<>();
    private final Map<String, Position> afterMarkDelete = new LinkedHashMap<>();
    private final List<OfConsumer> consumers = new ArrayList<>();
    private Map<?, ?> ranges;

    SnapshotText(Group group) {
        this.group = group;
    }

    /** Reads the subscription, under its lock and that of its dispatcher. */
    void subscription(PersistentSubscription subscription, Dispatcher dispatcher) {
        ManagedCursor cursor = subscription.getCursor();
        values.put("msg_backlog", subscription.getNumberOfEntriesInBacklog(false));
        values.put("last_confirmed_entry", cursor.getManagedLedger().getLastConfirmedEntry());
        read(BrokerFeatures.OF_DISPATCHER, dispatcher, values);
        // Most subscriptions have no filter.
        if (dispatcher.getFilterProcessedMsgCount() > 0) {
            read(BrokerFeatures.OF_FILTERS, dispatcher, values);
        }
        read(BrokerFeatures.OF_CURSOR, cursor, values);
        ranges = (Map<?, ?>) BrokerFeatures.RANGES.of(dispatcher);
        if (BrokerFeatures.RECENTLY_JOINED.of(dispatcher) instanceof Map<?, ?> joined) {
            joined.forEach((consumer, position) ->
                    afterMarkDelete.put(((Consumer) consumer).consumerName(), (Position) position));
        }
    }

    @SuppressWarnings("unchecked")
    void consumer(RecordedConsumer known, Consumer consumer) {
        ConsumerStatsImpl stats = consumer.getStats();
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("consumer_name", consumer.consumerName());
        read(BrokerFeatures.OF_CONSUMER, consumer, found);
        read(BrokerFeatures.OF_CONSUMER_STATS, stats, found);
        List<?> draining = (List<?>) BrokerFeatures.DRAINING_HASHES.of(stats);
        consumers.add(new OfConsumer(known, found, ranges == null ? null : (List<Range>) ranges.get(consumer),
                draining == null ? null : List.copyOf(draining)));
    }

    private static void read(Map<String, Member> members, Object of, Map<String, Object> values) {
        members.forEach((name, member) -> {
            Object value = member.of(of);
            if (value != null) {
                values.put(name, value);
            }
        });
    }

    /** Notes that the snapshot was taken after a row and before the one after another. */
    void ended(long afterSeq, long untilSeq) {
        values.put("seq_begin", afterSeq);
        values.put("seq_end", untilSeq);
    }

    /**
     * Returns the columns of the row.
     *
     * @param former each consumer in the snapshot before; those of this one replace them
     */
    String json(Map<Long, Former> former) {
        StringBuilder json = new StringBuilder(new String(group.json(), StandardCharsets.UTF_8));
        json.append(",\"snapshot\":{").append(members(values));
        if (!afterMarkDelete.isEmpty()) {
            json.append(",\"consumers_after_mark_delete_position\":{").append(members(afterMarkDelete)).append('}');
        }
        StringBuilder whole = new StringBuilder();
        StringBuilder asBefore = new StringBuilder();
        Set<Long> present = new HashSet<>();
        for (OfConsumer consumer : consumers) {
            long number = consumer.consumer().number();
            Former now = now(consumer);
            Former before = former.put(number, now);
            // A value that the broker says no more is not as before.
            boolean refers = before != null && now.others().keySet().containsAll(before.others().keySet());
            one(refers ? asBefore : whole, number, now, before, refers);
            present.add(number);
        }
        former.keySet().retainAll(present);
        json.append(",\"consumers\":[").append(whole).append(']');
        if (!asBefore.isEmpty()) {
            json.append(",\"consumers_as_before\":[").append(asBefore).append(']');
        }
        return json.append('}').toString();
    }

    private static void one(StringBuilder json, long number, Former now, Former before, boolean refers) {
        json.append(json.isEmpty() ? "" : ",").append("{\"consumer\":").append(number);
        now.others().forEach((name, value) -> {
            if (!refers || !value.equals(before.others().get(name))) {
                json.append(",\"").append(name).append("\":").append(value);
            }
        });
        if (now.ranges() != null) {
            now.ranges().write(json, before == null ? null : before.ranges());
        }
        json.append('}');
    }

    private static Former now(OfConsumer found) {
        HashRanges ranges = BrokerFeatures.RANGES.exists()
                ? HashRanges.of(found.ranges() == null ? List.of() : found.ranges()) : null;
        Map<String, String> others = new LinkedHashMap<>();
        found.values().forEach((name, value) -> others.put(name, value(value)));
        if (BrokerFeatures.DRAINING_HASHES.exists()) {
            others.put("draining_hashes", "[" + (found.draining() == null ? "" : found.draining().stream()
                    .map(SnapshotText::draining).collect(Collectors.joining(","))) + "]");
        }
        return new Former(ranges, others);
    }

    private static String draining(Object hash) {
        Map<String, Object> found = new LinkedHashMap<>();
        read(BrokerFeatures.OF_DRAINING_HASH, hash, found);
        return "{" + members(found) + "}";
    }

    private static String members(Map<String, ?> values) {
        return values.entrySet().stream().map(entry -> "\"" + entry.getKey() + "\":" + value(entry.getValue()))
                .collect(Collectors.joining(","));
    }

    /** Returns a value as JSON: numbers and booleans as they are, all else as text. */
    private static String value(Object value) {
        return value instanceof Number || value instanceof Boolean ? value.toString()
                : new JsonLine().text(value instanceof Position position
                        ? position.getLedgerId() + ":" + position.getEntryId() : value.toString()).toString();
    }
}
