package dispatchaudit.recorder;

import com.google.common.collect.MapMaker;
import java.util.Collection;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.broker.service.Subscription;
import org.apache.pulsar.common.api.proto.CommandSubscribe.SubType;

/**
 * The consumer and subscription objects of the broker, by identity: {@code Consumer.equals} takes a reconnect over the same
 * connection for the same consumer. Objects that the broker drops disappear here.
 */
final class Consumers {
    /** Stands for a consumer that is not recorded, so that it is asked only once. */
    private static final RecordedConsumer OTHER = new RecordedConsumer(-1, null, new byte[0], null);

    private final Recording recording;
    private final ConcurrentMap<Consumer, RecordedConsumer> consumers = new MapMaker().weakKeys().makeMap();
    private final ConcurrentMap<Subscription, RecordedSubscription> subscriptions = new MapMaker().weakKeys().makeMap();
    private final Set<RecordedSubscription> live = ConcurrentHashMap.newKeySet();
    private final AtomicLong lastNumber = new AtomicLong();

    Consumers(Recording recording) {
        this.recording = recording;
    }

    /** The consumer, with a number of its own; null if it is not recorded. It takes no lock of the broker. */
    RecordedConsumer of(Consumer consumer) {
        RecordedConsumer found = consumers.get(consumer);
        if (found == null) {
            found = add(consumer);
        }
        return found == OTHER ? null : found;
    }

    /**
     * One thread at a time: these maps may compute a value twice and drop one, but a subscription that two consumers join at
     * one moment has one object, one series of snapshots, and one reset when it is unloaded.
     */
    private synchronized RecordedConsumer add(Consumer consumer) {
        return consumers.computeIfAbsent(consumer, this::added);
    }

    private RecordedConsumer added(Consumer consumer) {
        Subscription subscription = consumer.getSubscription();
        if (consumer.subType() != SubType.Key_Shared
                || !recording.wants(subscription.getTopicName(), subscription.getName())) {
            return OTHER;
        }
        return RecordedConsumer.of(lastNumber.incrementAndGet(), of(subscription), consumer);
    }

    /** The subscription of a consumer, if a Key_Shared consumer of it is or was recorded; else null. */
    RecordedSubscription subscriptionOf(Consumer consumer) {
        return subscriptions.get(consumer.getSubscription());
    }

    private RecordedSubscription of(Subscription subscription) {
        return subscriptions.computeIfAbsent(subscription, added -> {
            RecordedSubscription recorded =
                    new RecordedSubscription(Group.of(added.getTopicName(), added.getName()), added, recording.now());
            live.add(recorded);
            return recorded;
        });
    }

    /** The consumer of a connection, if it has joined and is recorded; else null. */
    static Consumer joined(ServerCnx connection, long consumerId) {
        CompletableFuture<Consumer> future = connection.getConsumers().get(consumerId);
        return future == null || !future.isDone() || future.isCompletedExceptionally() ? null : future.getNow(null);
    }

    RecordedConsumer of(ServerCnx connection, long consumerId) {
        Consumer consumer = joined(connection, consumerId);
        return consumer == null ? null : of(consumer);
    }

    /** Whether a consumer was ever recorded. */
    boolean hadAny() {
        return lastNumber.get() > 0;
    }

    /** The subscriptions that had a consumer since they were loaded. */
    Collection<RecordedSubscription> subscriptions() {
        return live;
    }

    void remove(RecordedSubscription subscription) {
        live.remove(subscription);
    }
}
