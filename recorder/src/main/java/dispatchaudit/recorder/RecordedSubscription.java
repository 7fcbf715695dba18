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
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Dispatcher;
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

    static final String SEEK = "seek";
    /** The broker drops the subscription object: its topic is unloaded, or one of both is deleted. */
    static final String UNLOAD = "unload";
    /** A consumer of another type joined, and got another dispatcher; the next Key_Shared consumer gets a new one again. */
    static final String OTHER_TYPE = "other_type";

    private final Group group;
    private final WeakReference<PersistentSubscription> subscription;
    private final OtherEntries others = new OtherEntries();
    private volatile WeakReference<Dispatcher> dispatcher = new WeakReference<>(null);
    private final AtomicReference<Reset> reset = new AtomicReference<>();
    /** Consumers with a row that says that they joined, and none that says that they leave. */
    private final Map<Long, RecordedConsumer> present = new ConcurrentHashMap<>();
    /** Whether consumers of another type have the subscription. */
    private final AtomicBoolean hasOtherType = new AtomicBoolean();
    final AtomicBoolean snapshotIsDue = new AtomicBoolean();
    /** Whether a thread takes a snapshot; one that hangs keeps all others from taking the next. */
    final AtomicBoolean isTaken = new AtomicBoolean();

    /** Of the thread that takes snapshots: the last one's members, what it says of them, and what was written when. */
    final Set<Long> members = new HashSet<>();
    final Map<Long, SnapshotText.Former> former = new HashMap<>();
    int formerOfBreak = -1;
    int settingsOfBreak = -1;
    private final Moment met;
    private volatile Moment seen;

    /**
     * Returns what the recorder keeps about a subscription object.
     *
     * @param met from before its first row
     */
    RecordedSubscription(Group group, Subscription subscription, Moment met) {
        this.group = group;
        this.subscription = new WeakReference<>((PersistentSubscription) subscription);
        this.met = met;
        seen = met;
    }

    Moment met() {
        return met;
    }

    /** The moment of the last snapshot that showed its members; before there is one, the moment at which it was met. */
    Moment seen() {
        return seen;
    }

    void seenAt(Moment moment) {
        seen = moment;
    }

    Group group() {
        return group;
    }

    /** The broker's object; null after the broker has dropped it. */
    PersistentSubscription broker() {
        return subscription.get();
    }

    /** Remembers the dispatcher; call with no lock of the dispatcher held (never from beforeSendMessage). */
    void learn(Dispatcher now) {
        dispatcher = new WeakReference<>(now);
    }

    /** The hash that routes a key in this subscription; -1: its dispatcher is not known yet. */
    int hashOf(byte[] key) {
        Dispatcher known = dispatcher.get();
        return known == null ? -1 : BrokerFeatures.hashOf(known, key);
    }

    /** The entries whose rows are not recorded, because their hashes are not of the sample. */
    OtherEntries others() {
        return others;
    }

    /** A consumer of another type joined; returns whether it is the first of them. */
    boolean changesType() {
        return hasOtherType.compareAndSet(false, true);
    }

    void joins(RecordedConsumer consumer) {
        hasOtherType.set(false);
        present.put(consumer.number(), consumer);
    }

    void leaves(RecordedConsumer consumer) {
        present.remove(consumer.number());
    }

    void begin(Reset begun) {
        reset.set(begun);
    }

    /** A reset is over, with the consumers that it closed: no hook speaks of them. */
    record Ended(Reset reset, List<RecordedConsumer> closed) {
    }

    /**
     * Ends the reset that has begun; null if none has, or another thread has ended it. Clients are fast: behind a seek a
     * consumer that was closed may be back by now, as another one, which stays. Behind an unload it belongs to another
     * subscription object.
     */
    synchronized Ended endReset() {
        Reset ended = reset.getAndSet(null);
        if (ended == null) {
            return null;
        }
        Dispatcher known = dispatcher.get();
        // The list takes no lock.
        List<Consumer> back = ended.reason().equals(SEEK) && known != null ? known.getConsumers() : List.of();
        List<RecordedConsumer> closed = !ended.restarts() ? List.of()
                : present.values().stream().filter(consumer -> !consumer.isAmong(back)).toList();
        closed.forEach(this::leaves);
        return new Ended(ended, closed);
    }

    /**
     * Compares the members of two snapshots. It excludes {@link #endReset}, so that of both only one finds that a consumer left.
     *
     * @param now the members of the one that was just taken
     * @return consumers that were there before and are gone, although no hook said that they leave
     */
    synchronized List<RecordedConsumer> vanished(Set<Long> now) {
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
