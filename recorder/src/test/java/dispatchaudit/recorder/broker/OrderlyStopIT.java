package dispatchaudit.recorder.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A broker that stops in order gives up its topics; the trace says so by rows, each once, and by no gap. */
@Timeout(300)
class OrderlyStopIT {
    private static final String TOPIC = "persistent://public/default/orders";
    private static final int TOPICS = 60;

    @TempDir
    private Path directory;

    /** A client that does not come back: it would join anew, if the broker still has its port. */
    private static PulsarClient client(EmbeddedBroker broker) throws Exception {
        return PulsarClient.builder().serviceUrl(broker.serviceUrl())
                .startingBackoffInterval(5, TimeUnit.MINUTES).maxBackoffInterval(10, TimeUnit.MINUTES).build();
    }

    private static void join(PulsarClient client, String name) throws Exception {
        client.newConsumer().topic(TOPIC).subscriptionName("billing").consumerName(name)
                .subscriptionType(SubscriptionType.Key_Shared).acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .messageListener(Consumer::acknowledgeAsync).subscribe();
    }

    @Test
    void theTopicsOfAStoppingBrokerEndWithAReset() throws Exception {
        RecorderUnderTest recorder = new RecorderUnderTest(directory);
        // So often that snapshots fall between the leaves of single consumers.
        EmbeddedBroker broker = recorder.broker("dispatchAuditRecorderSnapshotMs", "1");
        PulsarClient client = client(broker);
        try {
            join(client, "first");
            join(client, "second");
            for (int i = 0; i < 30; i++) {
                join(client, "other-" + i);
            }
            try (Producer<byte[]> producer = client.newProducer().topic(TOPIC).enableBatching(false).create()) {
                for (int i = 0; i < 50; i++) {
                    producer.newMessage().key("key-" + i % 5).value(new byte[10]).send();
                }
            }
            RecorderUnderTest.await("the last ack", () -> recorder.ended("ack") == 50);
            RecorderUnderTest.await("a snapshot after the last ack", () -> {
                List<JsonNode> rows = recorder.rows();
                return rows.get(rows.size() - 1).get("event").asText().equals("stats");
            });
        } finally {
            broker.close();
            client.shutdown();
        }
        List<JsonNode> resets = recorder.rows("reset");
        assertEquals(List.of(), recorder.rows("gap"));
        assertEquals(List.of("start", "end"), resets.stream().map(row -> row.get("phase").asText()).toList());
        assertTrue(resets.stream().allMatch(row -> row.get("reason").asText().equals("unload")));
        long begins = resets.get(0).get("seq").asLong();
        long ends = resets.get(1).get("seq").asLong();
        List<JsonNode> leaves = recorder.rows("leave");
        assertEquals(32, leaves.size());
        for (JsonNode leave : leaves) {
            assertEquals("closed_by_broker", leave.get("reason").asText());
            assertTrue(begins < leave.get("seq").asLong() && leave.get("seq").asLong() < ends);
        }
        // The bracket of the reset begins at the last snapshot, which shows all; it holds nothing else that happened.
        List<JsonNode> snapshots = recorder.rows("stats");
        JsonNode last = snapshots.get(snapshots.size() - 1).get("snapshot");
        assertEquals(32, last.get("consumers").size() + last.path("consumers_as_before").size());
        assertTrue(last.get("seq_end").asLong() < begins);
        assertTrue(recorder.rows("ack").stream().allMatch(row -> row.get("seq").asLong() < begins));
    }

    /** Hooks of joins over different connections run at one time. */
    @Test
    void aTopicThatManyJoinedAtOnceEndsWithOneReset() throws Exception {
        RecorderUnderTest recorder = new RecorderUnderTest(directory);
        List<PulsarClient> clients = new ArrayList<>();
        EmbeddedBroker broker = recorder.broker();
        try {
            for (int i = 0; i < 4; i++) {
                clients.add(client(broker));
            }
            for (int topic = 0; topic < TOPICS; topic++) {
                List<CompletableFuture<Consumer<byte[]>>> joining = new ArrayList<>();
                for (PulsarClient client : clients) {
                    joining.add(client.newConsumer().topic(TOPIC + topic).subscriptionName("billing")
                            .subscriptionType(SubscriptionType.Key_Shared).subscribeAsync());
                }
                for (CompletableFuture<Consumer<byte[]>> joined : joining) {
                    joined.get();
                }
            }
        } finally {
            broker.close();
            for (PulsarClient client : clients) {
                client.shutdown();
            }
        }
        Map<String, Long> resets = recorder.rows("reset").stream()
                .collect(Collectors.groupingBy(row -> row.get("topic").asText(), Collectors.counting()));
        assertEquals(TOPICS, resets.size());
        assertEquals(Set.of(2L), Set.copyOf(resets.values()), resets::toString);
    }
}
