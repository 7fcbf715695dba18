package dispatchaudit.recorder;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes the statistics of subscriptions, at an interval and after each change of their members, on a thread of its own.
 * It locks the subscription and then its dispatcher, as joins do, so that nothing is dispatched meanwhile; hooks that hold
 * the dispatcher's lock must not ask for either. After that it looks at the settings, without a lock.
 */
final class Snapshots implements Runnable {
    private static final Logger log = LoggerFactory.getLogger(Snapshots.class);

    private final Recording recording;
    private final Consumers consumers;
    private final Counters counters;
    private final SettingsRows settings;
    private final long intervalNs;
    private final LinkedBlockingQueue<RecordedSubscription> changed = new LinkedBlockingQueue<>();
    private final AtomicInteger breaks = new AtomicInteger();
    private final Thread thread = new Thread(this, "dispatch-audit-snapshots");
    private volatile boolean stopping;

    Snapshots(Recording recording, Consumers consumers, Counters counters, int intervalMs) {
        this.recording = recording;
        this.consumers = consumers;
        this.counters = counters;
        this.settings = new SettingsRows(recording);
        this.intervalNs = intervalMs == 0 ? Long.MAX_VALUE / 2 : TimeUnit.MILLISECONDS.toNanos(intervalMs);
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    void stop() {
        stopping = true;
        thread.interrupt();
    }

    /** The members of a subscription changed: its next snapshot is due. Never waits. */
    void changed(RecordedSubscription subscription) {
        if (subscription.snapshotIsDue.compareAndSet(false, true)) {
            changed.add(subscription);
        }
    }

    /** Snapshots may refer to no former one: a file begins, or rows were lost. */
    void breakOff() {
        breaks.incrementAndGet();
        consumers.subscriptions().forEach(this::changed);
    }

    /** A topic was deleted. */
    void forget(String topic) {
        settings.forget(topic);
    }

    @Override
    public void run() {
        long due = System.nanoTime() + intervalNs;
        while (!stopping) {
            try {
                RecordedSubscription next = changed.poll(Math.max(0, due - System.nanoTime()), TimeUnit.NANOSECONDS);
                if (next != null) {
                    next.snapshotIsDue.set(false);
                    take(next);
                } else {
                    due = System.nanoTime() + intervalNs;
                    consumers.subscriptions().forEach(this::take);
                }
            } catch (InterruptedException e) {
                return;
            } catch (Throwable e) {
                counters.hookErrors.increment();
                log.warn("dispatch-audit recorder: a snapshot failed", e);
            }
        }
    }

    private void take(RecordedSubscription recorded) {
        PersistentSubscription subscription = recorded.broker();
        if (subscription == null) {
            consumers.remove(recorded);
            return;
        }
        Moment before = recording.now();
        Moment former = recorded.seen();
        Dispatcher dispatcher;
        SnapshotText text = new SnapshotText(recorded.group());
        Set<Long> members = new HashSet<>();
        synchronized (subscription) {
            dispatcher = subscription.getDispatcher();
            if (!BrokerFeatures.isKeyShared(dispatcher)) {
                return;
            }
            recorded.learn(dispatcher);
            synchronized (dispatcher) {
                long begin = recording.lastSeq();
                text.subscription(subscription, dispatcher);
                for (Consumer consumer : List.copyOf(dispatcher.getConsumers())) {
                    RecordedConsumer known = consumers.of(consumer);
                    if (known != null) {
                        members.add(known.number());
                        text.consumer(known, consumer);
                    }
                }
                text.ended(begin, recording.lastSeq());
                if (Closing.of(subscription.getTopic())) {
                    // The event of its end says of all consumers that they are gone.
                    return;
                }
                // An unload that begins now waits for the lock, and finds that they were there until here.
                recorded.seenAt(recording.now());
            }
        }
        List<RecordedConsumer> vanished = recorded.vanished(members);
        if (!vanished.isEmpty()) {
            recording.missed(recorded.group(), Row.Event.LEAVE, former, before);
            vanished.forEach(consumer -> recording.put(consumer.leave(recording.now(), "start", "closed_by_broker")));
        }
        int breaksNow = breaks.get();
        if (recorded.rangesOfBreak != breaksNow) {
            recorded.ranges.clear();
        }
        recording.put(new Rows.Text(recording.now(), recorded.group(), Row.Event.STATS, null, text.json(recorded.ranges)));
        recorded.rangesOfBreak = breaksNow;
        counters.snapshots.increment();
        settings.looked(recorded, recording.now(), EffectiveSettings.of(subscription, dispatcher), breaksNow);
    }
}
