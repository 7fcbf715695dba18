package dispatchaudit.recorder;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.broker.service.TopicEventsListener;

/**
 * Rows of resets. Clients seek by a command, administrators by a request; an unload ends with an event of the topic. Both
 * rows are written when it is known that the reset has happened, with the moment at which it began.
 */
final class Resets implements TopicEventsListener {
    private final Recording recording;
    private final Consumers consumers;
    private final Snapshots snapshots;
    private final AdminRequests requests;
    private final Map<Request, RecordedSubscription> seeks = new ConcurrentHashMap<>();

    /** A request of a client. */
    private record Request(ServerCnx connection, long id) {
    }

    Resets(Recording recording, Consumers consumers, Snapshots snapshots, AdminRequests requests) {
        this.recording = recording;
        this.consumers = consumers;
        this.snapshots = snapshots;
        this.requests = requests;
    }

    void seek(ServerCnx connection, long consumerId, long requestId) {
        RecordedConsumer consumer = consumers.of(connection, consumerId);
        if (consumer != null) {
            consumer.subscription().begin(new RecordedSubscription.Reset(recording.now(), RecordedSubscription.SEEK, true));
            seeks.put(new Request(connection, requestId), consumer.subscription());
        }
    }

    /** The broker answered a request of a client; most were no seeks. */
    void answered(ServerCnx connection, long requestId, boolean done) {
        if (seeks.isEmpty()) {
            return;
        }
        RecordedSubscription subscription = seeks.remove(new Request(connection, requestId));
        if (subscription != null) {
            end(subscription, done);
        }
    }

    /** An administrator asks; returns the subscriptions that the request will reset, for its answer. */
    List<RecordedSubscription> asked(String method, String uri) {
        AdminRequests.Asked asked = requests.reset(method, uri);
        if (asked == null) {
            return List.of();
        }
        List<RecordedSubscription> concerned = consumers.subscriptions().stream()
                .filter(subscription -> asked.concerns().test(subscription.group())).toList();
        for (RecordedSubscription subscription : concerned) {
            subscription.begin(new RecordedSubscription.Reset(recording.now(), asked.reason(), asked.restarts()));
        }
        return concerned;
    }

    /** The broker has answered an administrator's request. A redirect means that another broker owns the topic. */
    void answered(List<?> concerned, int status) {
        for (Object subscription : concerned) {
            end((RecordedSubscription) subscription, status < 300);
        }
    }

    private void end(RecordedSubscription subscription, boolean done) {
        if (!done) {
            subscription.begin(null);
            return;
        }
        RecordedSubscription.Ended ended = subscription.endReset();
        if (ended == null) {
            return;
        }
        write(subscription, ended);
        if (ended.reset().reason().equals(RecordedSubscription.UNLOAD)) {
            // No event says that a subscription was deleted, and a new one of its name is another object.
            consumers.remove(subscription);
        } else {
            snapshots.changed(subscription);
        }
    }

    private void write(RecordedSubscription subscription, RecordedSubscription.Ended ended) {
        RecordedSubscription.Reset reset = ended.reset();
        String columns = new String(subscription.group().json(), java.nio.charset.StandardCharsets.UTF_8)
                + ",\"reason\":\"" + reset.reason() + "\"";
        recording.put(new Rows.Text(reset.start(), subscription.group(), Row.Event.RESET, "start", columns));
        // Without them nobody knows whether a consumer that joined just now came before the reset or after it.
        ended.closed().forEach(consumer -> recording.put(consumer.leave(recording.now(), "start", "closed_by_broker")));
        recording.put(new Rows.Text(recording.now(), subscription.group(), Row.Event.RESET, "end", columns));
    }

    @Override
    public void handleEvent(String topic, TopicEvent event, EventStage stage, Throwable t) {
        boolean gone = event == TopicEvent.UNLOAD || event == TopicEvent.DELETE;
        if (!gone || stage != EventStage.SUCCESS) {
            return;
        }
        for (RecordedSubscription subscription : consumers.subscriptions()) {
            if (subscription.group().topic().equals(topic)) {
                unloaded(subscription);
            }
        }
        if (event == TopicEvent.DELETE) {
            recording.removeTopic(topic);
            snapshots.forget(topic);
        }
    }

    private void unloaded(RecordedSubscription subscription) {
        consumers.remove(subscription);
        RecordedSubscription.Ended ended = subscription.endReset();
        if (ended == null) {
            // A load balancer, or a broker that stops, unloads without asking by a request, and all consumers left before
            // this event. When they were last seen, it had not begun.
            subscription.begin(new RecordedSubscription.Reset(subscription.seen(), RecordedSubscription.UNLOAD, true));
            ended = subscription.endReset();
        }
        if (ended != null) {
            write(subscription, ended);
        }
    }
}
