package dispatchaudit.recorder;

import org.apache.pulsar.broker.service.Consumer;

/**
 * One consumer object of the broker, as rows name it. A reconnect under the same name is another one.
 *
 * @param number identity in the trace
 * @param subscription to which it is attached
 * @param json topic, subscription, number, name and id, as members of an object with a comma before each
 */
record RecordedConsumer(long number, RecordedSubscription subscription, byte[] json) {

    static RecordedConsumer of(long number, RecordedSubscription subscription, Consumer consumer) {
        String json = new String(subscription.group().json(), java.nio.charset.StandardCharsets.UTF_8)
                + columns(number, consumer.consumerName(), consumer.consumerId());
        return new RecordedConsumer(number, subscription, JsonLine.bytesOf(json));
    }

    static String columns(long number, String name, long id) {
        return ",\"consumer\":" + number + "," + JsonLine.member("consumer_name", name) + ",\"consumer_id\":" + id;
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
