package dispatchaudit.recorder;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.broker.service.StickyKeyConsumerSelector;
import org.apache.pulsar.broker.service.StickyKeyDispatcher;
import org.apache.pulsar.broker.service.Subscription;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;

/**
 * A Key_Shared subscription object of the broker with what the recorder keeps about it. After an unload the broker has
 * another object, and so has the recorder. It keeps none of the broker's objects alive.
 */
final class RecordedSubscription {
    /**
     * A seek, unload and so on that has begun.
     *
     * @param start when it was asked for
     * @param reason as in the column of that name
     * @param restarts whether all consumers leave without a row each
     */
    record Reset(Moment start, String reason, boolean restarts) {
    }

    private final Group group;
    private final WeakReference<PersistentSubscription> subscription;
    private volatile WeakReference<StickyKeyConsumerSelector> selector = new WeakReference<>(null);
    private final AtomicReference<Reset> reset = new AtomicReference<>();
    /** Consumers with a row that says that they joined, and none that says that they leave. */
    private final Map<Long, RecordedConsumer> present = new ConcurrentHashMap<>();
    final AtomicBoolean snapshotIsDue = new AtomicBoolean();

    /** Of the thread that takes snapshots: the last one's members, their ranges as JSON, and a number from before it. */
    final Set<Long> members = new HashSet<>();
    final Map<Long, String> ranges = new HashMap<>();
    int rangesOfBreak = -1;
    volatile Moment before;

    RecordedSubscription(Group group, Subscription subscription) {
        this.group = group;
        this.subscription = new WeakReference<>((PersistentSubscription) subscription);
    }

    Group group() {
        return group;
    }

    /** The broker's object; null after the broker has dropped it. */
    PersistentSubscription broker() {
        return subscription.get();
    }

    /** Takes the selector of a dispatcher; call with no lock of the dispatcher held (never from beforeSendMessage). */
    void learn(StickyKeyDispatcher dispatcher) {
        selector = new WeakReference<>(dispatcher.getSelector());
    }

    /** The hash that routes a key in this subscription; -1: its selector is not known yet. */
    int hashOf(byte[] key) {
        StickyKeyConsumerSelector known = selector.get();
        return known == null ? -1 : known.makeStickyKeyHash(key);
    }

    void joins(RecordedConsumer consumer) {
        present.put(consumer.number(), consumer);
    }

    void leaves(RecordedConsumer consumer) {
        present.remove(consumer.number());
    }

    void begin(Reset begun) {
        reset.set(begun);
    }

    /** Returns the reset that has begun and forgets it; null if there is none, or somebody else has taken it. */
    Reset takeReset() {
        return reset.getAndSet(null);
    }

    /** All consumers have left; returns those that no hook will speak of. */
    List<RecordedConsumer> restarted() {
        List<RecordedConsumer> gone = List.copyOf(present.values());
        gone.forEach(this::leaves);
        return gone;
    }

    /**
     * Compares the members of two snapshots.
     *
     * @param now the members of the one that was just taken
     * @return consumers that were there before and are gone, although no hook said that they leave
     */
    List<RecordedConsumer> vanished(Set<Long> now) {
        Reset begun = reset.get();
        List<RecordedConsumer> vanished = new ArrayList<>();
        // What a reset does is said when it ends.
        if (begun == null || !begun.restarts()) {
            for (Long number : members) {
                RecordedConsumer consumer = now.contains(number) ? null : present.remove(number);
                if (consumer != null) {
                    vanished.add(consumer);
                }
            }
            members.clear();
            members.addAll(now);
        }
        return vanished;
    }
}
