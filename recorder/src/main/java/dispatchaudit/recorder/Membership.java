package dispatchaudit.recorder;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.stream.Collectors;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.common.api.proto.CommandError;
import org.apache.pulsar.common.api.proto.CommandSubscribe;
import org.apache.pulsar.common.api.proto.CommandSubscribe.SubType;
import org.apache.pulsar.common.api.proto.KeySharedMeta;
import org.apache.pulsar.common.api.proto.KeySharedMode;
import org.apache.pulsar.common.naming.TopicName;

/** Rows of joins and leaves. A join is written when its outcome is known, with the moment at which it began. */
final class Membership {
    private static final int ERROR_MAX = 500;

    private final Recording recording;
    private final Consumers consumers;
    private final Snapshots snapshots;
    private final ConcurrentMap<ServerCnx, Map<Long, Join>> joining = new ConcurrentHashMap<>();

    /** A SUBSCRIBE command that the broker works on. */
    private record Join(Moment start, long requestId, Group group, String columns, String consumer) {
    }

    Membership(Recording recording, Consumers consumers, Snapshots snapshots) {
        this.recording = recording;
        this.consumers = consumers;
        this.snapshots = snapshots;
    }

    void subscribe(CommandSubscribe command, ServerCnx connection) {
        if (command.getSubType() != SubType.Key_Shared) {
            return;
        }
        // A client may leave the domain away: my-topic is persistent://public/default/my-topic.
        String topic = TopicName.get(command.getTopic()).toString();
        if (!recording.wants(topic, command.getSubscription())) {
            return;
        }
        recording.addTopic(topic);
        KeySharedMeta meta = command.hasKeySharedMeta() ? command.getKeySharedMeta() : null;
        Join join = new Join(recording.now(), command.getRequestId(),
                Group.of(topic, command.getSubscription()), policy(meta), "," + JsonLine.member("consumer_name",
                command.hasConsumerName() ? command.getConsumerName() : "") + ",\"consumer_id\":" + command.getConsumerId());
        joining.computeIfAbsent(connection, c -> new ConcurrentHashMap<>()).put(command.getConsumerId(), join);
    }

    /** The broker refused a request; if it was a join, its start is written without a number, and with the reason. */
    void refused(CommandError error, ServerCnx connection) {
        Map<Long, Join> ofConnection = joining.get(connection);
        if (ofConnection == null) {
            return;
        }
        ofConnection.values().removeIf(join -> {
            if (join.requestId() != error.getRequestId()) {
                return false;
            }
            recording.put(new Rows.Text(join.start(), join.group(), Row.Event.JOIN, "start",
                    json(join.group()) + join.consumer() + join.columns() + reason(error)));
            return true;
        });
    }

    /** The broker's words may have the address of another consumer. */
    private String reason(CommandError error) {
        String words = error.hasMessage() ? error.getMessage() : "";
        return ",\"reason\":\"" + error.getError() + '"' + (recording.leavesOut(Settings.ADDRESS) ? ""
                : "," + JsonLine.member("error", words.substring(0, Math.min(words.length(), ERROR_MAX))));
    }

    void joined(Consumer consumer, ServerCnx connection) {
        Map<Long, Join> ofConnection = joining.get(connection);
        Join join = ofConnection == null ? null : ofConnection.remove(consumer.consumerId());
        RecordedConsumer recorded = consumers.of(consumer);
        if (recorded == null) {
            changesType(consumers.subscriptionOf(consumer));
            return;
        }
        String columns = new String(recorded.json(), java.nio.charset.StandardCharsets.UTF_8)
                + ",\"consumer_id\":" + consumer.consumerId()
                + (recording.leavesOut(Settings.ADDRESS) ? "" : "," + address(consumer))
                + policy(consumer.getKeySharedMeta());
        if (join != null) {
            recording.put(new Rows.Text(join.start(), recorded.group(), Row.Event.JOIN, "start", columns));
        }
        recording.put(new Rows.Text(recording.now(), recorded.group(), Row.Event.JOIN, "end",
                columns + ",\"priority\":" + consumer.getPriorityLevel()));
        recorded.subscription().joins(recorded);
        Dispatcher dispatcher = consumer.getSubscription().getDispatcher();
        if (BrokerFeatures.isKeyShared(dispatcher)) {
            recorded.subscription().learn(dispatcher);
        }
        snapshots.changed(recorded.subscription());
    }

    /** No Key_Shared consumer is left when one of another type joins. The next one that joins ends the reset. */
    private void changesType(RecordedSubscription subscription) {
        if (subscription != null && subscription.changesType()) {
            recording.put(new Rows.Text(recording.now(), subscription.group(), Row.Event.RESET, "start",
                    json(subscription.group()) + ",\"reason\":\"" + RecordedSubscription.OTHER_TYPE + '"'));
        }
    }

    private static String address(Consumer consumer) {
        return JsonLine.member(Settings.ADDRESS, consumer.cnx().clientAddress().toString().replaceFirst("^.*/", ""));
    }

    private static String policy(KeySharedMeta meta) {
        boolean sticky = meta != null && meta.getKeySharedMode() == KeySharedMode.STICKY;
        boolean outOfOrder = meta != null && meta.isAllowOutOfOrderDelivery();
        String ranges = meta == null ? "" : meta.getHashRangesList().stream()
                .map(range -> "{\"start\":" + range.getStart() + ",\"end\":" + range.getEnd() + "}")
                .collect(Collectors.joining(","));
        return ",\"key_shared_mode\":\"" + (sticky ? "STICKY" : "AUTO_SPLIT") + "\",\"allow_out_of_order\":" + outOfOrder
                + ",\"ranges\":[" + ranges + "]";
    }

    private static String json(Group group) {
        return new String(group.json(), java.nio.charset.StandardCharsets.UTF_8);
    }

    /** A consumer is about to leave: it asked for that. */
    void leaving(long consumerId, ServerCnx connection) {
        leave(consumers.of(connection, consumerId), "start", "close_consumer");
    }

    /** All consumers of a connection are about to leave. */
    void connectionClosed(ServerCnx connection) {
        List<RecordedConsumer> leaving = connection.getConsumers().keys().stream()
                .map(id -> consumers.of(connection, id)).filter(java.util.Objects::nonNull).toList();
        for (RecordedConsumer consumer : leaving) {
            leave(consumer, "start", "connection_closed");
        }
        joining.remove(connection);
    }

    void left(Consumer consumer, ServerCnx connection) {
        RecordedConsumer recorded = consumers.of(consumer);
        leave(recorded, "end", connection.isActive() ? "close_consumer" : "connection_closed");
        if (recorded != null) {
            snapshots.changed(recorded.subscription());
        }
    }

    private void leave(RecordedConsumer consumer, String phase, String reason) {
        if (consumer == null) {
            return;
        }
        consumer.subscription().leaves(consumer);
        recording.put(consumer.leave(recording.now(), phase, reason));
    }
}
