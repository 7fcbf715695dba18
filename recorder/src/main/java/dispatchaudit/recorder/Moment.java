package dispatchaudit.recorder;

import java.time.Instant;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * When a hook ran: its number among all moments of this recorder, and the wall clock.
 *
 * @param tsUs microseconds since 1970 UTC
 */
record Moment(long seq, long tsUs) {

    /** Gives every moment a number of its own. */
    static final class Clock {
        /** The wall clock takes half as much again to read as the other one, so hooks read it so often. */
        private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(10);

        private final AtomicLong last = new AtomicLong();
        private volatile Look look = Look.now();

        /** Both clocks at one time. */
        private record Look(long ns, long us) {
            /** How far the two may be apart. */
            private static final long APART_NS = TimeUnit.MICROSECONDS.toNanos(100);

            /** Looks again when the thread was stopped in between: its look serves other threads too. */
            static Look now() {
                while (true) {
                    long ns = System.nanoTime();
                    Instant now = Instant.now();
                    if (System.nanoTime() - ns < APART_NS) {
                        return new Look(ns, now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000);
                    }
                }
            }
        }

        Moment now() {
            Look before = look;
            long sinceNs = System.nanoTime() - before.ns();
            if (sinceNs > LOOK_NS) {
                before = Look.now();
                look = before;
                sinceNs = 0;
            }
            return new Moment(last.incrementAndGet(), before.us() + sinceNs / 1_000);
        }

        /** The number that was given last. */
        long last() {
            return last.get();
        }
    }
}
