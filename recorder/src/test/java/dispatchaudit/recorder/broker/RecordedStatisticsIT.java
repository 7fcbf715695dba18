package dispatchaudit.recorder.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Snapshots in the trace against the statistics that the broker gives to anybody who asks, while nothing moves. */
@Timeout(600)
class RecordedStatisticsIT {
    private static final String TOPIC = "persistent://public/default/orders";
    private static final String SUBSCRIPTION = "billing";
    /** Its unacknowledged messages, and the flag. */
    private static final Pattern A_BLOCKED_CONSUMER = Pattern.compile("\\[2\\d, true, ");

    @TempDir
    private Path directory;

    private RecorderUnderTest recorder;

    @BeforeEach
    void recorder() {
        recorder = new RecorderUnderTest(directory);
    }

    private static Consumer<byte[]> join(PulsarClient client, String name) throws Exception {
        return client.newConsumer().topic(TOPIC).subscriptionName(SUBSCRIPTION).consumerName(name)
                .subscriptionType(SubscriptionType.Key_Shared).receiverQueueSize(200)
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS).subscribe();
    }

    private static void publish(PulsarClient client, int messages) throws Exception {
        try (Producer<byte[]> producer = client.newProducer().topic(TOPIC).enableBatching(false).create()) {
            for (int i = 0; i < messages; i++) {
                producer.newMessage().key("key-" + i % 50).value(new byte[10]).sendAsync();
            }
            producer.flush();
        }
    }

    /** What the admin API says of each consumer, by its name, and of the subscription, by "". */
    private static Map<String, String> statistics(EmbeddedBroker broker) throws Exception {
        JsonNode stats = broker.ask(TOPIC, "stats").get("subscriptions").get(SUBSCRIPTION);
        JsonNode ledger = broker.ask(TOPIC, "internalStats");
        JsonNode cursor = ledger.get("cursors").get(SUBSCRIPTION);
        Map<String, String> found = new TreeMap<>();
        found.put("", fields(stats, "blockedSubscriptionOnUnackedMsgs", "msgDelayed", "msgInReplay", "unackedMessages",
                "nonContiguousDeletedMessagesRanges", "keySharedMode", "allowOutOfOrderDelivery",
                "consumersAfterMarkDeletePosition")
                + fields(cursor, "subscriptionHavePendingRead", "subscriptionHavePendingReplayRead", "waitingReadOp",
                        "pendingReadOps", "readPosition", "markDeletePosition") + fields(ledger, "lastConfirmedEntry"));
        for (JsonNode consumer : stats.get("consumers")) {
            // Brokers before 4.0 give each range as text.
            JsonNode ranges = consumer.has("keyHashRangeArrays") ? consumer.get("keyHashRangeArrays")
                    : consumer.get("keyHashRanges");
            // Statistics write a range as [a, b], in a text or as an array.
            Set<String> ofConsumer = new TreeSet<>();
            Pattern.compile("\\[(\\d+), *(\\d+)]").matcher(ranges.toString()).results()
                    .forEach(range -> ofConsumer.add("[" + range.group(1) + "," + range.group(2) + "]"));
            found.put(consumer.get("consumerName").asText(), ofConsumer
                    + draining(consumer.get("drainingHashes"), "unackMsgs")
                    + fields(consumer, "drainingHashesCount", "drainingHashesUnackedMessages")
                    + fields(consumer, "unackedMessages", "blockedConsumerOnUnackedMsgs", "msgOutCounter",
                            "lastAckedTimestamp", "lastConsumedTimestamp", "lastConsumedFlowTimestamp",
                            "drainingHashesClearedTotal", "readPositionWhenJoining"));
        }
        return found;
    }

    private static String draining(JsonNode hashes, String unacked) {
        if (hashes == null) {
            return "no draining hashes";
        }
        TreeSet<String> found = new TreeSet<>();
        hashes.forEach(hash -> found.add(hash.get("hash").asInt() + "=" + hash.get(unacked).asLong()));
        return found.toString();
    }

    /** What statistics count and sum up of draining hashes, and a snapshot does not repeat. */
    private static String totals(JsonNode hashes) {
        long entries = 0;
        for (JsonNode hash : hashes == null ? List.<JsonNode>of() : hashes) {
            entries += hash.get("unacked_messages").asLong();
        }
        return hashes == null ? "[-, -]" : "[" + hashes.size() + ", " + entries + "]";
    }

    /** Values by their names; a field that is absent and one that has nothing in it say the same. */
    private static String fields(JsonNode object, String... names) {
        return Stream.of(names).map(object::get).map(value -> value == null || value.isObject() && value.isEmpty() ? "-"
                : value.isObject() ? value.toString() : value.asText()).toList().toString();
    }

    /** The same of the last snapshot in the trace; what it does not repeat comes from the ones before. */
    private Map<String, String> recorded() throws Exception {
        Map<String, Set<String>> ranges = new HashMap<>();
        Map<Long, ObjectNode> consumers = new HashMap<>();
        Map<String, String> found = new TreeMap<>();
        for (JsonNode row : recorder.rows("stats")) {
            found.clear();
            found.put("", fields(row.get("snapshot"), "blocked_subscription_on_unacked_msgs", "msg_delayed",
                    "msg_in_replay", "unacked_messages", "non_contiguous_deleted_messages_ranges", "key_shared_mode",
                    "allow_out_of_order_delivery", "consumers_after_mark_delete_position")
                    + fields(row.get("snapshot"), "subscription_have_pending_read", "subscription_have_pending_replay_read",
                            "waiting_read_op", "pending_read_ops", "read_position", "mark_delete_position")
                    + fields(row.get("snapshot"), "last_confirmed_entry"));
            List<JsonNode> present = new ArrayList<>();
            for (JsonNode whole : row.get("snapshot").get("consumers")) {
                consumers.put(whole.get("consumer").asLong(), whole.deepCopy());
                present.add(whole);
            }
            for (JsonNode changed : row.get("snapshot").path("consumers_as_before")) {
                ObjectNode consumer = consumers.get(changed.get("consumer").asLong());
                consumer.remove(List.of("key_hash_ranges", "key_hash_ranges_changed"));
                present.add(consumer.setAll((ObjectNode) changed));
            }
            for (JsonNode consumer : present) {
                String name = consumer.get("consumer_name").asText();
                Set<String> ofConsumer = ranges.computeIfAbsent(name, any -> new TreeSet<>());
                if (consumer.has("key_hash_ranges")) {
                    ofConsumer.clear();
                }
                consumer.path("key_hash_ranges_changed").forEach(range -> {
                    if (!ofConsumer.remove(range.toString())) {
                        ofConsumer.add(range.toString());
                    }
                });
                consumer.path("key_hash_ranges").forEach(range -> ofConsumer.add(range.toString()));
                found.put(name, ofConsumer + draining(consumer.get("draining_hashes"), "unacked_messages")
                        + totals(consumer.get("draining_hashes"))
                        + fields(consumer, "unacked_messages", "blocked_consumer_on_unacked_msgs", "msg_out_counter",
                                "last_acked_timestamp", "last_consumed_timestamp", "last_consumed_flow_timestamp",
                                "draining_hashes_cleared_total", "read_position_when_joining"));
            }
        }
        return found;
    }

    private void assertSnapshotsFollow(EmbeddedBroker broker) throws Exception {
        // Dispatches and acks come to rest, and then a snapshot of that state reaches the file.
        long end = System.nanoTime() + 60_000_000_000L;
        Map<String, String> said;
        Map<String, String> found;
        do {
            said = statistics(broker);
            Thread.sleep(500);
            found = recorded();
        } while (!(found.equals(said) && said.equals(statistics(broker))) && System.nanoTime() < end);
        assertEquals(said, found);
    }

    @Test
    void rangesAndDrainingHashesAreThoseOfTheBroker() throws Exception {
        try (EmbeddedBroker broker = recorder.broker();
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            Consumer<byte[]> first = join(client, "first");
            assertSnapshotsFollow(broker);
            publish(client, 100);
            // It holds messages of all keys when the others join, so hashes drain.
            List<MessageId> held = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                held.add(first.receive().getMessageId());
            }
            Consumer<byte[]> second = join(client, "second");
            join(client, "third");
            assertSnapshotsFollow(broker);
            // Until 4.0 newcomers wait for what was read before they joined, since then for the hashes that others hold.
            Map<String, String> waiting = statistics(broker);
            boolean drains = waiting.get("first").contains("=");
            assertTrue(drains != waiting.get("").contains("{\"second\":"), "nobody waits, so this test proves nothing");
            assertEquals(drains, waiting.get("second").endsWith("-]"), waiting.get("second"));
            for (MessageId id : held.subList(0, 60)) {
                first.acknowledge(id);
            }
            assertSnapshotsFollow(broker);
            second.close();
            assertSnapshotsFollow(broker);
            publish(client, 50);
            assertSnapshotsFollow(broker);
            for (MessageId id : held.subList(60, 100)) {
                first.acknowledge(id);
            }
            assertSnapshotsFollow(broker);
        }
        assertEquals(3, recorder.rows("join").stream().filter(row -> row.get("phase").asText().equals("end")).count());
        assertEquals(150, recorder.rows("publish").size());
        assertTrue(recorder.rows("publish").stream().allMatch(row -> row.has("producer_name")));
        assertTrue(recorder.rows("join").stream().allMatch(row -> row.has("address")));
    }

    /** Of 39 entries that two consumers hold, one of them holds at least 20, however the entries reach them. */
    @Test
    void flagsOfBothLimitsAreThoseOfTheBroker() throws Exception {
        try (EmbeddedBroker broker = recorder.broker(
                "maxUnackedMessagesPerConsumer", "20", "maxUnackedMessagesPerSubscription", "39");
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            join(client, "first");
            join(client, "second");
            publish(client, 200);
            assertSnapshotsFollow(broker);
            String all = statistics(broker).toString();
            assertTrue(all.contains("=[true, 0, "), "the subscription is not blocked, so this test proves nothing: " + all);
            assertTrue(A_BLOCKED_CONSUMER.matcher(all).find(), "no consumer is blocked, so this test proves nothing: " + all);
        }
    }

    @Test
    void digestsHideKeysAndTheirHashesAreThoseOfTheSelector() throws Exception {
        Path secret = directory.resolveSibling(directory.getFileName() + ".secret");
        Files.writeString(secret, "0123456789abcdef0123456789abcdef");
        try (EmbeddedBroker broker = recorder.broker("dispatchAuditRecorderKeys", "digest",
                "dispatchAuditRecorderKeySecretFile", secret.toString(),
                "dispatchAuditRecorderLeaveOut", "address, producer_name");
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            Consumer<byte[]> only = join(client, "only");
            publish(client, 50);
            for (int i = 0; i < 50; i++) {
                Message<byte[]> message = only.receive();
                only.acknowledge(message);
            }
        }
        Map<String, Integer> ofPublishes = new HashMap<>();
        Map<String, Integer> ofDispatches = new HashMap<>();
        recorder.rows("publish").forEach(row -> ofPublishes.put(row.get("key_b64").asText(), row.get("sticky_hash").asInt()));
        recorder.rows("dispatch").stream().filter(row -> row.get("phase").asText().equals("start"))
                .forEach(row -> ofDispatches.put(row.get("key_b64").asText(), row.get("sticky_hash").asInt()));
        assertEquals(50, ofPublishes.size());
        assertEquals(ofPublishes, ofDispatches);
        assertFalse(recorder.rows().toString().contains("a2V5L"), "key- as base64");
        assertTrue(recorder.rows().stream().noneMatch(row -> row.has("address") || row.has("producer_name") || row.has("sequence_id")));
    }

    @Test
    void onlyWhatIsAskedForIsRecorded() throws Exception {
        try (EmbeddedBroker broker = recorder.broker(
                "dispatchAuditRecorderTopics", "persistent://public/default/.*",
                "dispatchAuditRecorderSubscriptionsExcluded", "audit-.*");
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            join(client, "first");
            client.newConsumer().topic(TOPIC).subscriptionName("audit-1")
                    .subscriptionType(SubscriptionType.Key_Shared).subscribe();
            client.newConsumer().topic(TOPIC).subscriptionName("shared")
                    .subscriptionType(SubscriptionType.Shared).subscribe();
            publish(client, 20);
        }
        TreeSet<String> subscriptions = new TreeSet<>();
        recorder.rows().stream().filter(row -> row.has("subscription")).forEach(row -> subscriptions.add(row.get("subscription").asText()));
        assertEquals(new TreeSet<>(List.of(SUBSCRIPTION)), subscriptions);
        assertEquals(20, recorder.rows("publish").size());
    }

    @Test
    void aWrongSettingTurnsTheRecorderOffAndTheBrokerRuns() throws Exception {
        try (EmbeddedBroker broker = recorder.broker("dispatchAuditRecorderSnapshots", "100");
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            join(client, "first");
            publish(client, 5);
        }
        assertEquals(List.of(), recorder.rows());
    }
}
