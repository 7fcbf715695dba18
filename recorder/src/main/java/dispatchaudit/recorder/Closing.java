package dispatchaudit.recorder;

import java.lang.reflect.Field;
import org.apache.pulsar.broker.service.Topic;
import org.apache.pulsar.broker.service.persistent.PersistentTopic;

/** Whether the broker is giving up a topic: its consumers leave one by one then. No method of 4.0 says so, hence the field. */
final class Closing {
    private static final Field FIELD = field();

    private Closing() {
    }

    /** Where a release does not let one know, no topic is being given up. */
    static boolean of(Topic topic) {
        try {
            return FIELD != null && FIELD.getBoolean(topic);
        } catch (ReflectiveOperationException | RuntimeException e) {
            return false;
        }
    }

    private static Field field() {
        try {
            Field field = PersistentTopic.class.getDeclaredField("isClosingOrDeleting");
            field.setAccessible(true);
            return field;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }
}
