package dispatchaudit.recorder;

import java.lang.ref.WeakReference;
import java.util.List;
import org.apache.pulsar.broker.service.Consumer;

/**
 * One consumer object of the broker, as rows name it. A reconnect under the same name is another one.
 *
 * @param number identity in the trace
 * @param subscription to which it is attached
 * @param json topic, subscription, number and name, as members of an object with a comma before each
 * @param broker the broker's object, which this does not keep alive
 */
record RecordedConsumer(long number, RecordedSubscription subscription, byte[] json, WeakReference<Consumer> broker) {

    static RecordedConsumer of(long number, RecordedSubscription subscription, Consumer consumer) {
        String json = new String(subscription.group().json(), java.nio.charset.StandardCharsets.UTF_8)
                + ",\"consumer\":" + number + "," + JsonLine.member("consumer_name", consumer.consumerName());
        return new RecordedConsumer(number, subscription, JsonLine.bytesOf(json), new WeakReference<>(consumer));
    }

    /** Whether this consumer is one of these; {@code Consumer.equals} takes a reconnect for the same one. */
    boolean isAmong(List<Consumer> consumers) {
        Consumer consumer = broker.get();
        return consumer != null && consumers.stream().anyMatch(other -> other == consumer);
    }

    /** A row that says that this consumer leaves, or has left. */
    Row leave(Moment moment, String phase, String reason) {
        return new Rows.Text(moment, group(), Row.Event.LEAVE, phase,
                new String(json, java.nio.charset.StandardCharsets.UTF_8) + ",\"reason\":\"" + reason + "\"");
    }

    Group group() {
        return subscription.group();
    }
}
