package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KeysTest {
    @TempDir
    private Path folder;

    private static MessageMetadata metadata() {
        return new MessageMetadata().setProducerName("producer-1").setSequenceId(0).setPublishTime(1);
    }

    private static final long DAY_MS = 86_400_000;
    /** Contract 1.2: the hash of the key "äö" on the ring, or its murmur value. */
    private static final int HASH = BrokerFeatures.ROUTES_BY_WHOLE_HASH ? 1_825_177_928 : 28_179;

    private Keys digests(String secret, int periodHours) throws Exception {
        Path file = folder.resolve("secret");
        Files.writeString(file, secret);
        return Keys.digests(file, periodHours, 1, 65_535);
    }

    private Keys digests(String secret) throws Exception {
        return digests(secret, 24);
    }

    /** The digest of one key in a message that was published at this time. */
    private static String at(Keys keys, long publishTimeMs) throws Exception {
        return written(keys, metadata().setPartitionKey("one").setPublishTime(publishTimeMs)).get("key_b64").asText();
    }

    private static JsonNode written(Keys keys, MessageMetadata metadata) throws Exception {
        JsonLine line = new JsonLine().raw(JsonLine.bytesOf("{\"event\":\"publish\""));
        keys.write(line, Keys.Key.of(metadata), null);
        return new ObjectMapper().readTree(line.raw('}').toString());
    }

    @Test
    void plainKeysAreTheStickyKeyOfTheBroker() throws Exception {
        JsonNode both = written(Keys.plain(), metadata().setPartitionKey("p").setOrderingKey(new byte[] {1, -1}));
        assertEquals("Af8=", both.get("key_b64").asText());
        assertEquals("ordering_key", both.get("key_source").asText());
        JsonNode none = written(Keys.plain(), metadata());
        assertEquals("none", none.get("key_source").asText());
        assertNull(none.get("sticky_hash"));
    }

    @Test
    void aDigestHidesTheKeyAndTheHashIsThatOfTheKey() throws Exception {
        MessageMetadata message = metadata().setPartitionKey("äö");
        JsonNode first = written(digests("0123456789abcdef"), message);
        assertEquals(HASH, first.get("sticky_hash").asInt());
        String digest = first.get("key_b64").asText();
        assertEquals(digest, written(digests("0123456789abcdef\n"), message).get("key_b64").asText());
        assertNotEquals(digest, written(digests("another secret of 16"), message).get("key_b64").asText());
        assertFalse(new String(java.util.Base64.getDecoder().decode(digest), StandardCharsets.UTF_8).contains("äö"));
    }

    @Test
    void aKeylessMessageHasNoDigest() throws Exception {
        JsonNode none = written(digests("0123456789abcdef"), metadata());
        assertNull(none.get("key_b64"));
        // Contract 1.2: NONE_KEY, or producer-1-0.
        assertEquals(BrokerFeatures.ROUTES_BY_WHOLE_HASH ? 504_741_539 : 18_607, none.get("sticky_hash").asInt());
    }

    @Test
    void aKeyHasOneDigestInADayOnAllBrokers() throws Exception {
        String first = at(digests("0123456789abcdef"), 7 * DAY_MS);
        assertEquals(first, at(digests("0123456789abcdef"), 8 * DAY_MS - 1));
    }

    @Test
    void aKeyHasAnotherDigestOnEachDay() throws Exception {
        Keys keys = digests("0123456789abcdef");
        Set<String> found = new HashSet<>();
        for (int day = 0; day < 100; day++) {
            found.add(at(keys, day * DAY_MS));
        }
        assertEquals(100, found.size());
        // A consumer that reads old messages gets the secret of their day again.
        assertEquals(at(digests("0123456789abcdef"), 0), at(keys, 0));
    }

    @Test
    void theHashIsTheSameOnEachDay() throws Exception {
        Keys keys = digests("0123456789abcdef");
        for (int day = 0; day < 3; day++) {
            MessageMetadata message = metadata().setPartitionKey("äö").setPublishTime(day * DAY_MS);
            assertEquals(HASH, written(keys, message).get("sticky_hash").asInt());
        }
    }

    @Test
    void periodsHaveTheLengthThatIsAskedFor() throws Exception {
        Keys hours = digests("0123456789abcdef", 6);
        assertEquals(at(hours, 0), at(hours, DAY_MS / 4 - 1));
        assertNotEquals(at(hours, 0), at(hours, DAY_MS / 4));
        Keys always = digests("0123456789abcdef", 0);
        assertEquals(at(always, 0), at(always, 1_000 * DAY_MS));
    }

    @Test
    void withoutAFileEachStartOfABrokerHasASecretOfItsOwn() throws Exception {
        Keys first = Keys.digests(null, 24, 1, 65_535);
        assertEquals(at(first, 1), at(first, 2));
        assertNotEquals(at(first, 1), at(Keys.digests(null, 24, 1, 65_535), 1));
    }

    @Test
    void aShortSecretIsRefused() {
        assertThrows(IOException.class, () -> digests("short"));
    }
}
