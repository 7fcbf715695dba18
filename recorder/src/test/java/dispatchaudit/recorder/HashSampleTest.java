package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.stream.IntStream;
import org.apache.pulsar.common.util.Murmur3_32Hash;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvFileSource;

class HashSampleTest {
    private static byte[] key(int number) {
        return ("key-" + number).getBytes(StandardCharsets.UTF_8);
    }

    /** The audit has a test of the same file. */
    @ParameterizedTest
    @CsvFileSource(resources = "/hash-samples.csv", numLinesToSkip = 1)
    void theAuditChoosesTheSameHashes(int oneIn, String salt, int hash, boolean chosen) {
        assertEquals(chosen, new HashSample(oneIn, salt, 65_535).has(hash));
    }

    @Test
    void aPublishIsThereIfAnySelectorGivesItsKeyAHashOfTheSample() {
        HashSample sample = new HashSample(8, "a", 65_535);
        long found = IntStream.range(0, 10_000).filter(number -> sample.hasAny(key(number))).count();
        for (int number = 0; number < 10_000; number++) {
            int murmur = Murmur3_32Hash.getInstance().makeHash(key(number));
            boolean whole = BrokerFeatures.ROUTES_BY_WHOLE_HASH;
            boolean any = whole ? sample.has(murmur)
                    : sample.has(murmur % 65_535 + 1) || sample.has(Math.max(murmur % 65_536, 1));
            assertEquals(any, sample.hasAny(key(number)));
        }
        assertTrue(found > 0 && found < 10_000 / 3, "of 10,000: " + found);
    }

    @Test
    void otherEntriesAreKnownUntilManyMoreWereSent() {
        OtherEntries others = new OtherEntries();
        others.add(7, 4_095);
        others.add(7, 4_097);
        assertTrue(others.has(7, 4_095) && others.has(7, 4_097));
        assertFalse(others.has(7, 4_096) || others.has(8, 4_095) || others.has(7, 4_095 + 64));
        others.remove(7, 4_097);
        assertFalse(others.has(7, 4_097));
        for (int entry = 0; entry < 1 << 20; entry++) {
            others.add(8, entry);
        }
        assertFalse(others.has(7, 4_095), "what is forgotten is recorded");
        assertTrue(others.has(8, (1 << 20) - 1));
    }
}
