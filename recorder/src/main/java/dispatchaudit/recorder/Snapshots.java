package dispatchaudit.recorder;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
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
 * When a snapshot does not end, a row says so, and another thread goes on with the other subscriptions.
 * It locks the subscription and then its dispatcher, as joins do, so that nothing is dispatched meanwhile; hooks that hold
 * the dispatcher's lock must not ask for either. After that it looks at the settings, without a lock.
 */
final class Snapshots implements Runnable {
    private static final Logger log = LoggerFactory.getLogger(Snapshots.class);

    /** A snapshot takes milliseconds; joins and dispatches of a broker under load may hold its locks for longer. */
    private static final long LIMIT_NS = TimeUnit.SECONDS.toNanos(5);
    /** Each subscription that hangs keeps a thread. */
    private static final int THREADS_MAX = 8;

    private final Recording recording;
    private final Consumers consumers;
    private final Counters counters;
    private final SettingsRows settings;
    private final long intervalNs;
    private final LinkedBlockingQueue<RecordedSubscription> changed = new LinkedBlockingQueue<>();
    private final AtomicInteger breaks = new AtomicInteger();
    /** Snapshots that have begun and not ended: one, and those that hang. */
    private final Set<Taking> takings = ConcurrentHashMap.newKeySet();
    /** The thread that takes the next snapshots; one before it may hang. */
    private volatile Thread current;
    private int threads;
    private volatile boolean stopping;

    /** A snapshot that has begun. */
    private static final class Taking {
        private final RecordedSubscription subscription;
        private final Moment begun;
        private final Thread thread = Thread.currentThread();
        private final long begunNs = System.nanoTime();
        /** Whether a row says that it hangs. */
        private boolean said;

        Taking(RecordedSubscription subscription, Moment begun) {
            this.subscription = subscription;
            this.begun = begun;
        }

        private Row row(Moment moment, String phase, String more) {
            Group group = subscription.group();
            return new Rows.Text(moment, group, Row.Event.HANG, phase, new String(group.json(), StandardCharsets.UTF_8)
                    + ",\"seq_begin\":" + begun.seq() + ",\"begun_us\":" + begun.tsUs() + more);
        }
    }

    Snapshots(Recording recording, Consumers consumers, Counters counters, int intervalMs) {
        this.recording = recording;
        this.consumers = consumers;
        this.counters = counters;
        this.settings = new SettingsRows(recording);
        this.intervalNs = intervalMs == 0 ? Long.MAX_VALUE / 2 : TimeUnit.MILLISECONDS.toNanos(intervalMs);
    }

    void start() {
        Thread next = new Thread(this, "dispatch-audit-snapshots-" + ++threads);
        next.setDaemon(true);
        current = next;
        next.start();
    }

    void stop() {
        stopping = true;
        current.interrupt();
    }

    /** Writes a row for each snapshot that takes too long, once, and lets another thread go on. Takes no lock of the broker. */
    void sayWhatHangs() {
        boolean goesOn = true;
        for (Taking taking : takings) {
            synchronized (taking) {
                if (taking.said || System.nanoTime() - taking.begunNs < LIMIT_NS || !takings.contains(taking)) {
                    continue;
                }
                taking.said = true;
                String chain = WaitingThread.chain(taking.thread);
                recording.put(taking.row(recording.now(), "start",
                        chain.isEmpty() ? "" : "," + JsonLine.member("waits_for", chain)));
            }
            goesOn &= taking.thread != current;
        }
        if (!goesOn && threads < THREADS_MAX && !stopping) {
            start();
        }
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
        while (!stopping && Thread.currentThread() == current) {
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
        if (Thread.currentThread() != current || !recorded.isTaken.compareAndSet(false, true)) {
            return;
        }
        Taking taking = new Taking(recorded, recording.now());
        takings.add(taking);
        try {
            look(recorded, taking.begun);
        } finally {
            synchronized (taking) {
                takings.remove(taking);
                if (taking.said) {
                    recording.put(taking.row(recording.now(), "end", ""));
                }
            }
            recorded.isTaken.set(false);
        }
    }

    private void look(RecordedSubscription recorded, Moment before) {
        PersistentSubscription subscription = recorded.broker();
        if (subscription == null) {
            consumers.remove(recorded);
            return;
        }
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
        if (recorded.formerOfBreak != breaksNow) {
            recorded.former.clear();
        }
        recording.put(new Rows.Text(recording.now(), recorded.group(), Row.Event.STATS, null, text.json(recorded.former)));
        recorded.formerOfBreak = breaksNow;
        counters.snapshots.increment();
        settings.looked(recorded, recording.now(), EffectiveSettings.of(subscription, dispatcher), breaksNow);
    }
}
