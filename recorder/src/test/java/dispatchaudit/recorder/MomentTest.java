package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import org.junit.jupiter.api.Test;

class MomentTest {
    private static final long APART_US = 1_000;

    private static long wallClockUs() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    @Test
    void momentsFollowTheWallClockAndEachHasTheNextNumber() {
        Moment.Clock clock = new Moment.Clock();
        long end = System.nanoTime() + 50_000_000;
        for (long number = 1; System.nanoTime() < end; number++) {
            long before = wallClockUs();
            Moment moment = clock.now();
            long after = wallClockUs();
            assertEquals(number, moment.seq());
            assertTrue(before - APART_US < moment.tsUs() && moment.tsUs() < after + APART_US);
        }
    }
}
