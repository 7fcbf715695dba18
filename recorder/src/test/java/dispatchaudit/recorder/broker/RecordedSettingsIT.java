package dispatchaudit.recorder.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.DelayedDeliveryPolicies;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Rows of settings against what a test lets the broker do: policies of each level, and its dynamic configuration. */
@Timeout(600)
class RecordedSettingsIT {
    private static final String NAMESPACE = "public/default";
    private static final String TOPIC = "persistent://public/default/orders";
    private static final String SUBSCRIPTION = "billing";
    private static final String PER_CONSUMER = "maxUnackedMessagesPerConsumer";
    private static final String PER_TOPIC = "dispatchThrottlingRatePerTopic";
    private static final String CLASSIC = "subscriptionKeySharedUseClassicPersistentImplementation";
    private static final String LOOK_AHEAD = "keySharedLookAheadMsgInReplayThresholdPerConsumer";
    private static final String PER_SUBSCRIPTION = "dispatchThrottlingRatePerSubscription";

    @TempDir
    private Path directory;

    private RecorderUnderTest recorder;

    @BeforeEach
    void recorder() {
        recorder = new RecorderUnderTest(directory);
    }

    private static Consumer<byte[]> join(PulsarClient client, String subscription) throws Exception {
        return client.newConsumer().topic(TOPIC).subscriptionName(subscription)
                .subscriptionType(SubscriptionType.Key_Shared).subscribe();
    }

    /** The values in force of a subscription by the rows so far, each with its source. */
    private Map<String, String> inForce(String subscription) throws Exception {
        Map<String, String> values = new HashMap<>();
        for (JsonNode row : recorder.rows("settings")) {
            if (row.get("subscription").asText().equals(subscription)) {
                row.get("settings").fields().forEachRemaining(setting -> values.put(setting.getKey(),
                        setting.getValue().asText() + " " + row.get("sources").get(setting.getKey()).asText()));
            }
        }
        return values;
    }

    /** Whether the release of this broker has a setting. */
    private static boolean has(String setting) {
        return Stream.of(ServiceConfiguration.class.getDeclaredFields()).anyMatch(field -> field.getName().equals(setting));
    }

    private void assertComes(String name, String expected) throws Exception {
        RecorderUnderTest.await(name + " " + expected, () -> expected.equals(inForce(SUBSCRIPTION).get(name)));
    }

    private static DispatchRate rate(int messages, long bytes, int seconds) {
        return DispatchRate.builder().dispatchThrottlingRateInMsg(messages).dispatchThrottlingRateInByte(bytes)
                .ratePeriodInSecond(seconds).build();
    }

    @Test
    void policiesOfEachLevelAreThoseInForce() throws Exception {
        try (EmbeddedBroker broker = recorder.broker(PER_CONSUMER, "40", "dispatchThrottlingRatePerTopicInMsg", "900");
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            PulsarAdmin admin = broker.service().getAdminClient();
            join(client, SUBSCRIPTION);
            join(client, "other");
            assertComes(PER_CONSUMER, "40 broker");
            assertComes("maxUnackedMessagesPerSubscription", "200000 broker");
            assertComes(PER_TOPIC + "InMsg", "900 broker");
            if (has(CLASSIC)) {
                assertComes(CLASSIC, "false dispatcher");
            }

            admin.namespaces().setMaxUnackedMessagesPerConsumer(NAMESPACE, 3000);
            assertComes(PER_CONSUMER, "3000 namespace");
            admin.topicPolicies().setMaxUnackedMessagesOnConsumer(TOPIC, 100);
            assertComes(PER_CONSUMER, "100 topic");
            admin.topicPolicies().removeMaxUnackedMessagesOnConsumer(TOPIC);
            assertComes(PER_CONSUMER, "3000 namespace");
            admin.namespaces().removeMaxUnackedMessagesPerConsumer(NAMESPACE);
            assertComes(PER_CONSUMER, "40 broker");
            admin.topicPolicies().setMaxUnackedMessagesOnSubscription(TOPIC, 70);
            assertComes("maxUnackedMessagesPerSubscription", "70 topic");

            admin.namespaces().setDispatchRate(NAMESPACE, rate(500, -1, 1));
            assertComes(PER_TOPIC + "InMsg", "500 namespace");
            admin.topicPolicies().setDispatchRate(TOPIC, rate(300, 4_000_000_000L, 10));
            assertComes(PER_TOPIC + "InMsg", "300 topic");
            assertComes(PER_TOPIC + "InByte", "4000000000 topic");
            assertComes(PER_TOPIC + "PeriodInSeconds", "10 topic");
            admin.namespaces().setSubscriptionDispatchRate(NAMESPACE, rate(200, -1, 1));
            assertComes(PER_SUBSCRIPTION + "InMsg", "200 namespace");
            admin.topicPolicies().setSubscriptionDispatchRate(TOPIC, SUBSCRIPTION, rate(80, -1, 1));
            assertComes(PER_SUBSCRIPTION + "InMsg", "80 subscription");
            assertEquals("200 namespace", inForce("other").get(PER_SUBSCRIPTION + "InMsg"));

            admin.topicPolicies().setDelayedDeliveryPolicy(TOPIC,
                    DelayedDeliveryPolicies.builder().active(false).tickTime(750).build());
            assertComes("delayedDeliveryEnabled", "false topic");
            assertComes("delayedDeliveryTickTimeMillis", "750 topic");
            admin.brokers().updateDynamicConfiguration("dispatchThrottlingRateInMsg", "5000");
            assertComes("dispatchThrottlingRateInMsg", "5000 broker");
            assertComes("dispatcherMaxReadBatchSize", "100 broker");
            if (has(LOOK_AHEAD)) {
                admin.brokers().updateDynamicConfiguration(LOOK_AHEAD, "77");
                assertComes(LOOK_AHEAD, "77 broker");
            }
            // What this broker does not have is not in the trace.
            assertEquals(has(CLASSIC), inForce(SUBSCRIPTION).containsKey(CLASSIC));
            assertEquals(has(LOOK_AHEAD), inForce(SUBSCRIPTION).containsKey(LOOK_AHEAD));
        }
    }

    private List<JsonNode> rowsOfSubscription(String event) throws Exception {
        return recorder.rows(event).stream()
                .filter(row -> row.has("subscription") && row.get("subscription").asText().equals(SUBSCRIPTION)).toList();
    }

    @Test
    void aChangeLiesBetweenTwoLooks() throws Exception {
        long asked;
        try (EmbeddedBroker broker = recorder.broker(PER_CONSUMER, "40");
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            join(client, SUBSCRIPTION);
            assertComes(PER_CONSUMER, "40 broker");
            asked = System.currentTimeMillis() * 1000;
            broker.service().getAdminClient().namespaces().setMaxUnackedMessagesPerConsumer(NAMESPACE, 3000);
            assertComes(PER_CONSUMER, "3000 namespace");
        }
        List<JsonNode> settings = rowsOfSubscription("settings");
        JsonNode first = settings.get(0);
        // It counts from the start of the subscription: nothing was sent, and nobody had joined, before it.
        assertFalse(first.has("seq_begin"));
        assertTrue(rowsOfSubscription("join").stream().filter(row -> row.get("phase").asText().equals("end"))
                .allMatch(row -> row.get("seq").asLong() > first.get("seq").asLong()));
        List<JsonNode> changes = settings.stream().filter(row -> row.has("seq_begin")).toList();
        assertEquals(1, changes.size());
        JsonNode change = changes.get(0);
        assertEquals("{\"maxUnackedMessagesPerConsumer\":3000}", change.get("settings").toString());
        assertTrue(change.get("ts_us").asLong() > asked);
        long begin = change.get("seq_begin").asLong();
        assertTrue(first.get("seq").asLong() < begin && begin < change.get("seq").asLong());
        // The look before was one interval earlier, or a little more, so at most a few snapshots lie in between.
        assertTrue(rowsOfSubscription("stats").stream().map(row -> row.get("seq").asLong())
                .filter(seq -> seq > begin && seq < change.get("seq").asLong()).count() <= 2);
    }

    @Test
    void settingsThatChangeWhileATopicIsUnloadedCountFromItsReturn() throws Exception {
        try (EmbeddedBroker broker = recorder.broker(PER_CONSUMER, "40");
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            PulsarAdmin admin = broker.service().getAdminClient();
            try (Consumer<byte[]> former = join(client, SUBSCRIPTION)) {
                assertComes(PER_CONSUMER, "40 broker");
            }
            admin.topics().unload(TOPIC);
            admin.namespaces().setMaxUnackedMessagesPerConsumer(NAMESPACE, 3000);
            join(client, SUBSCRIPTION);
            assertComes(PER_CONSUMER, "3000 namespace");
        }
        List<JsonNode> changes = rowsOfSubscription("settings").stream().filter(row -> row.has("seq_begin")).toList();
        assertEquals(1, changes.size());
        long change = changes.get(0).get("seq").asLong();
        assertEquals(3000, changes.get(0).get("settings").get(PER_CONSUMER).asInt());
        List<JsonNode> resets = rowsOfSubscription("reset");
        long unloaded = resets.get(1).get("seq").asLong();
        assertTrue(changes.get(0).get("seq_begin").asLong() < unloaded && unloaded < change);
        // Nobody can be sent anything by the former settings.
        List<Long> joined = rowsOfSubscription("join").stream().filter(row -> row.get("phase").asText().equals("end"))
                .map(row -> row.get("seq").asLong()).toList();
        assertEquals(2, joined.size());
        assertTrue(joined.get(0) < unloaded && change < joined.get(1));
    }
}
