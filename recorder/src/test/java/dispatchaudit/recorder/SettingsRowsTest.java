package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.Properties;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class SettingsRowsTest {
    private static final String LIMIT = "maxUnackedMessagesPerConsumer";
    private static final String DELAYED = "delayedDeliveryEnabled";
    private static final Group BILLING = Group.of("persistent://public/default/orders", "billing");

    private RowQueue queue;
    private Recording recording;
    private SettingsRows settings;

    @BeforeEach
    void recording() throws Exception {
        queue = new RowQueue(1024, 24, new Drops());
        recording = new Recording(Settings.of(new Properties()), queue, new Drops());
        settings = new SettingsRows(recording);
    }

    private RecordedSubscription loaded() {
        return new RecordedSubscription(BILLING, null, recording.now());
    }

    private static Map<String, EffectiveSettings.Value> values(int limit) {
        return Map.of(LIMIT, new EffectiveSettings.Value(String.valueOf(limit), "namespace"),
                DELAYED, new EffectiveSettings.Value("true", "broker"));
    }

    /** Looks, and returns the row that it wrote; null: none. */
    private JsonNode look(RecordedSubscription subscription, int limit, int breaks) throws Exception {
        settings.looked(subscription, recording.now(), values(limit), breaks);
        Row row = queue.poll();
        assertNull(queue.poll());
        if (row == null) {
            return null;
        }
        JsonLine line = new JsonLine();
        row.write(line, new byte[0], Keys.plain());
        return new ObjectMapper().readTree(line.toString());
    }

    @Test
    void theFirstLookCountsFromTheSubscriptionsStart() throws Exception {
        RecordedSubscription subscription = loaded();
        recording.now();
        JsonNode row = look(subscription, 40, 0);
        assertEquals("settings", row.get("event").asText());
        assertEquals("billing", row.get("subscription").asText());
        assertEquals(subscription.met().seq(), row.get("seq").asLong());
        assertFalse(row.has("seq_begin"));
        assertEquals(40, row.get("settings").get(LIMIT).asInt());
        assertTrue(row.get("settings").get(DELAYED).isBoolean());
        assertEquals("namespace", row.get("sources").get(LIMIT).asText());
    }

    @Test
    void aChangeNamesTheLookBeforeAndNothingElse() throws Exception {
        RecordedSubscription subscription = loaded();
        look(subscription, 40, 0);
        assertNull(look(subscription, 40, 0));
        long before = recording.lastSeq();
        recording.now();
        JsonNode row = look(subscription, 3000, 0);
        assertEquals(before, row.get("seq_begin").asLong());
        assertEquals(recording.lastSeq(), row.get("seq").asLong());
        assertEquals("{\"" + LIMIT + "\":3000}", row.get("settings").toString());
        assertEquals("{\"" + LIMIT + "\":\"namespace\"}", row.get("sources").toString());
    }

    @Test
    void aFileBeginsWithAllSettings() throws Exception {
        RecordedSubscription subscription = loaded();
        look(subscription, 40, 1);
        JsonNode unchanged = look(subscription, 40, 2);
        assertEquals(2, unchanged.get("settings").size());
        assertEquals(recording.lastSeq(), unchanged.get("seq").asLong());
        assertFalse(unchanged.has("seq_begin"));
        JsonNode changed = look(subscription, 50, 3);
        assertEquals(2, changed.get("settings").size());
        assertTrue(changed.has("seq_begin"));
    }

    @Test
    void aSubscriptionThatIsLoadedAgainMayHaveChangedSinceTheLastLook() throws Exception {
        RecordedSubscription former = loaded();
        look(former, 40, 0);
        long lastLook = recording.lastSeq();
        RecordedSubscription again = loaded();
        recording.now();
        JsonNode row = look(again, 3000, 0);
        assertEquals(lastLook, row.get("seq_begin").asLong());
        assertEquals(again.met().seq(), row.get("seq").asLong());
        assertEquals(2, row.get("settings").size());
        settings.forget(BILLING.topic());
        assertFalse(look(loaded(), 50, 0).has("seq_begin"));
    }
}
