package dispatchaudit.recorder;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/** What all hooks share: the clock, the queue, and which topics and subscriptions are recorded. */
final class Recording {
    private final RowQueue queue;
    private final Drops drops;
    private final Moment.Clock clock = new Moment.Clock();
    private final Predicate<String> topicWanted;
    private final Predicate<String> subscriptionWanted;
    private final Set<String> leftOut;
    /** Topics that have, or had, a Key_Shared consumer here; only their publishes are recorded. */
    private final ConcurrentMap<String, Group> keySharedTopics = new ConcurrentHashMap<>();

    Recording(Settings settings, RowQueue queue, Drops drops) {
        this.queue = queue;
        this.drops = drops;
        topicWanted = wanted(settings.topics(), settings.topicsExcluded());
        subscriptionWanted = wanted(settings.subscriptions(), settings.subscriptionsExcluded());
        leftOut = settings.leftOut();
    }

    private static Predicate<String> wanted(Pattern included, Pattern excluded) {
        return name -> included.matcher(name).matches() && !excluded.matcher(name).matches();
    }

    /** Whether a Key_Shared subscription is recorded. */
    boolean wants(String topic, String subscription) {
        return topic.startsWith("persistent://") && topicWanted.test(topic) && subscriptionWanted.test(subscription);
    }

    /** Whether a column is not recorded, as the settings say. */
    boolean leavesOut(String column) {
        return leftOut.contains(column);
    }

    /** From now on the publishes of a topic are recorded. */
    void addTopic(String topic) {
        keySharedTopics.computeIfAbsent(topic, name -> Group.of(name, null));
    }

    void removeTopic(String topic) {
        keySharedTopics.remove(topic);
    }

    /** The topic of recorded publishes; null if they are not. */
    Group publishesOf(String topic) {
        return keySharedTopics.get(topic);
    }

    /** Numbers the moment at which the calling hook runs; call it first. */
    Moment now() {
        return clock.now();
    }

    long lastSeq() {
        return clock.last();
    }

    void put(Row row) {
        queue.put(row);
    }

    /** Marks that something happened between two moments that no hook showed. */
    void missed(Group group, Row.Event event, Moment from, Moment to) {
        drops.addUnseen(group, event, from, to);
    }
}
