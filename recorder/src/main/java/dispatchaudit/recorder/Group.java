package dispatchaudit.recorder;

import java.util.Objects;

/**
 * A subscription of a topic, or a topic alone (its publishes), or everything (neither): what a gap is counted for.
 *
 * @param json the two columns as members of an object, each with a comma before it
 * @param hash of topic and subscription, kept because the writer looks up the group of every row
 */
record Group(String topic, String subscription, byte[] json, int hash) {
    static final Group EVERYTHING = new Group(null, null, new byte[0], 0);

    static Group of(String topic, String subscription) {
        String json = "," + JsonLine.member("topic", topic);
        if (subscription != null) {
            json += "," + JsonLine.member("subscription", subscription);
        }
        return new Group(topic, subscription, JsonLine.bytesOf(json), Objects.hash(topic, subscription));
    }

    @Override
    public boolean equals(Object other) {
        return other == this || other instanceof Group group && hash == group.hash
                && Objects.equals(topic, group.topic) && Objects.equals(subscription, group.subscription);
    }

    @Override
    public int hashCode() {
        return hash;
    }
}
