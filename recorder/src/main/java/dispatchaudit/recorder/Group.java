package dispatchaudit.recorder;

/**
 * A subscription of a topic, or a topic alone (its publishes), or everything (neither): what a gap is counted for.
 *
 * @param json the two columns as members of an object, each with a comma before it
 */
record Group(String topic, String subscription, byte[] json) {
    static final Group EVERYTHING = new Group(null, null, new byte[0]);

    static Group of(String topic, String subscription) {
        String json = "," + JsonLine.member("topic", topic);
        if (subscription != null) {
            json += "," + JsonLine.member("subscription", subscription);
        }
        return new Group(topic, subscription, JsonLine.bytesOf(json));
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Group && java.util.Objects.equals(topic, ((Group) other).topic)
                && java.util.Objects.equals(subscription, ((Group) other).subscription);
    }

    @Override
    public int hashCode() {
        return java.util.Objects.hash(topic, subscription);
    }
}
