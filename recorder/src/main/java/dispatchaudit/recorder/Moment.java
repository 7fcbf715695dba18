package dispatchaudit.recorder;

import java.time.Instant;
import java.util.concurrent.atomic.AtomicLong;

/**
 * When a hook ran: its number among all moments of this recorder, and the wall clock.
 *
 * @param tsUs microseconds since 1970 UTC
 */
record Moment(long seq, long tsUs) {

    /** Gives every moment a number of its own. */
    static final class Clock {
        private final AtomicLong last = new AtomicLong();

        Moment now() {
            Instant now = Instant.now();
            return new Moment(last.incrementAndGet(), now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000);
        }

        /** The number that was given last. */
        long last() {
            return last.get();
        }
    }
}
