package dispatchaudit.recorder.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The recorder beside an interceptor of somebody else, and between administrators and what they send. */
@Timeout(300)
class InterceptedRequestsIT {
    private static final String NAMESPACE = "public/default";
    private static final String TOPIC = "persistent://public/default/orders";
    private static final String SUBSCRIPTION = "billing";
    private static final int MESSAGES = 60;

    @TempDir
    private Path directory;

    @TempDir
    private Path interceptors;

    private static Consumer<byte[]> join(PulsarClient client) throws Exception {
        return client.newConsumer().topic(TOPIC).subscriptionName(SUBSCRIPTION)
                .subscriptionType(SubscriptionType.Key_Shared).acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .negativeAckRedeliveryDelay(1, TimeUnit.MILLISECONDS).subscribe();
    }

    @Test
    void anotherInterceptorIsShownTheSameAndNackedEntriesComeBackOnce() throws Exception {
        Path nar = Path.of(System.getProperty("recorder.nar"));
        Files.copy(nar, interceptors.resolve(nar.getFileName()));
        PluginNar.ofInterceptor(interceptors.resolve("other.nar"), OtherInterceptor.NAME, OtherInterceptor.class);
        RecorderUnderTest recorder = new RecorderUnderTest(directory);
        try (EmbeddedBroker broker = recorder.broker("brokerInterceptorsDirectory", interceptors.toString(),
                "brokerInterceptors", "dispatch-audit-recorder," + OtherInterceptor.NAME);
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build();
                Consumer<byte[]> consumer = join(client);
                Producer<byte[]> producer = client.newProducer().topic(TOPIC).enableBatching(false).create()) {
            for (int i = 0; i < MESSAGES; i++) {
                producer.newMessage().key("key-" + i % 7).value(new byte[10]).send();
            }
            consumer.negativeAcknowledge(consumer.receive());
            for (int i = 0; i < MESSAGES; i++) {
                consumer.acknowledge(consumer.receive());
            }
            RecorderUnderTest.await("the last ack", () -> recorder.ended("ack") == MESSAGES);
            broker.service().getAdminClient().topics().skipAllMessages(TOPIC, SUBSCRIPTION);
            assertTrue(OtherInterceptor.ASKED.get() > 0, "the other one is not asked by administrators");
            // Administrators have their answer before interceptors are shown it.
            RecorderUnderTest.await("both rows of the reset", () -> recorder.rows("reset").size() == 2);
        }
        List<JsonNode> dispatches = recorder.rows("dispatch");
        assertEquals(MESSAGES + 1, OtherInterceptor.DISPATCHED.get());
        assertEquals(MESSAGES + 1, dispatches.stream().filter(row -> row.get("phase").asText().equals("end")).count());
        assertEquals(MESSAGES, OtherInterceptor.ACKED.get());
        assertEquals(MESSAGES, recorder.rows("ack").stream().filter(row -> row.get("phase").asText().equals("end")).count());
        assertEquals(List.of("clear", "clear"), recorder.rows("reset").stream().map(row -> row.get("reason").asText())
                .filter(reason -> !reason.equals("unload")).toList());
        // Some brokers show the request to interceptors, others do not; either way it has one row, before what it causes.
        List<JsonNode> asked = recorder.rows("redeliver");
        assertEquals(1, asked.size());
        JsonNode again = dispatches.stream().filter(row -> row.path("redelivery_count").asInt() == 1).findFirst().orElseThrow();
        assertEquals(again.get("entry_id"), asked.get(0).get("positions").get(0).get("entry_id"));
        assertTrue(asked.get(0).get("seq").asLong() < again.get("seq").asLong());
    }

    @Test
    void eachDeletionOfASubscriptionIsOneReset() throws Exception {
        RecorderUnderTest recorder = new RecorderUnderTest(directory);
        try (EmbeddedBroker broker = recorder.broker();
                PulsarClient client = PulsarClient.builder().serviceUrl(broker.serviceUrl()).build()) {
            for (int deletions = 1; deletions <= 2; deletions++) {
                int expected = deletions;
                try (Consumer<byte[]> consumer = join(client)) {
                    RecorderUnderTest.await("the join", () -> recorder.ended("join") >= expected);
                    broker.service().getAdminClient().topics().deleteSubscription(TOPIC, SUBSCRIPTION, true);
                    RecorderUnderTest.await("the end of the reset", () -> recorder.ended("reset") >= expected);
                }
            }
        }
        List<String> phases = recorder.rows("reset").stream().map(row -> row.get("phase").asText()).toList();
        for (int i = 0; i < phases.size(); i++) {
            assertEquals(i % 2 == 0 ? "start" : "end", phases.get(i), () -> "two resets at once: " + phases);
        }
    }

    @Test
    void whatAdministratorsSendReachesTheBroker() throws Exception {
        try (EmbeddedBroker broker = new RecorderUnderTest(directory).broker()) {
            PulsarAdmin admin = broker.service().getAdminClient();
            admin.topics().createPartitionedTopic("persistent://public/default/parts", 3);
            assertEquals(3, admin.topics().getPartitionedTopicMetadata("persistent://public/default/parts").partitions);
            admin.topics().createNonPartitionedTopic(TOPIC);
            admin.topics().createSubscription(TOPIC, SUBSCRIPTION, MessageId.earliest);
            assertEquals(List.of(SUBSCRIPTION), admin.topics().getSubscriptions(TOPIC));
            admin.topics().resetCursor(TOPIC, SUBSCRIPTION, MessageId.latest);
            admin.namespaces().setMaxUnackedMessagesPerConsumer(NAMESPACE, 3_000);
            assertEquals(3_000, admin.namespaces().getMaxUnackedMessagesPerConsumer(NAMESPACE));
            admin.namespaces().setRetention(NAMESPACE, new RetentionPolicies(10, 20));
            assertEquals(20, admin.namespaces().getRetention(NAMESPACE).getRetentionSizeInMB());
            admin.namespaces().setDispatchRate(NAMESPACE, DispatchRate.builder().dispatchThrottlingRateInMsg(7)
                    .dispatchThrottlingRateInByte(-1).ratePeriodInSecond(1).build());
            assertEquals(7, admin.namespaces().getDispatchRate(NAMESPACE).getDispatchThrottlingRateInMsg());
        }
    }
}
