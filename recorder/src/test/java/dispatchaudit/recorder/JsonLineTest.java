package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Base64;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonLineTest {
    private static JsonNode parsed(JsonLine line) throws Exception {
        return new ObjectMapper().readTree(line.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "plain", "\"quoted\" \\ back", "line\nfeed\ttab\u0000\u001f", "äö€😀", "\u2028"})
    void textsComeBackAsTheyWere(String text) throws Exception {
        assertEquals(text, parsed(new JsonLine().text(text)).asText());
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 7, -1, 9, 10, 99, 100, 101, -120, 999, 1_000, 123_456, 99_999_999, 100_000_000, 100_000_001, 1_000_000_010,
        1_795_447_920_668_290L, 999_999_999_999_999_999L, 1_000_000_000_000_000_000L, Long.MAX_VALUE, Long.MIN_VALUE + 1, Long.MIN_VALUE})
    void numbersComeBackAsTheyWere(long number) throws Exception {
        assertEquals(number, parsed(new JsonLine().number(number)).asLong());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 16, 300})
    void bytesComeBackAsTheyWere(int length) throws Exception {
        byte[] key = new byte[length];
        new Random(length).nextBytes(key);
        assertEquals(Base64.getEncoder().encodeToString(key), parsed(new JsonLine().base64(key)).asText());
    }

    @Test
    void aLineGrowsAsItNeeds() throws Exception {
        byte[] key = new byte[100_000];
        key[5] = -3;
        assertArrayEquals(key, Base64.getDecoder().decode(parsed(new JsonLine().base64(key)).asText()));
    }
}
