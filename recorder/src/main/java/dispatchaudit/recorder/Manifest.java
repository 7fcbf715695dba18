package dispatchaudit.recorder;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.pulsar.broker.ServiceConfiguration;

/** What {@code trace.json} says: the broker, those of its settings that change what it dispatches, and the recorder. */
final class Manifest {
    /** Beginnings of names; a broker has more than 500 settings, and some of them are secrets. */
    private static final List<String> RECORDED = List.of(
            "acknowledgmentAtBatchIndexLevelEnabled", "delayedDelivery", "dispatcher", "entryFilterNames", "keyShared", "maxUnackedMessages",
            "numIOThreads", "preciseDispatcherFlowControl", "subscriptionExpirationTimeMinutes", "subscriptionKeyShared",
            "entryBucketDispatch");

    private final ObjectNode fields = new ObjectMapper().createObjectNode();

    Manifest(String pulsarVersion, ServiceConfiguration configuration, String recorder, String version, Settings recording) {
        fields.put("trace_format", 1);
        fields.put("pulsar_version", pulsarVersion);
        ObjectNode settings = fields.putObject("settings");
        for (Field field : ServiceConfiguration.class.getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers()) && RECORDED.stream().anyMatch(field.getName()::startsWith)) {
                put(settings, field, configuration);
            }
        }
        ObjectNode ofRecorder = fields.putObject("recorder").put("name", "dispatch-audit-recorder").put("version", version);
        // A trace without an ack or a leave then shows that none happened, not that nobody recorded them.
        ArrayNode events = ofRecorder.putArray("events");
        for (Row.Event event : Row.Event.values()) {
            events.add(event.text);
        }
        fields.put("complete_from_start", true);
        fields.put("keys", recording.digests() ? "digest" : "plain");
        if (recording.digests()) {
            fields.put("key_digest_hours", recording.digestHours());
        }
        if (recording.sampleOneIn() > 1) {
            fields.putObject("sample").put("share", "1/" + recording.sampleOneIn()).put("salt", recording.sampleSalt());
        }
        fields.put("note", "recorded by " + recorder);
    }

    private static void put(ObjectNode settings, Field field, ServiceConfiguration configuration) {
        try {
            field.setAccessible(true);
            Object value = field.get(configuration);
            if (value instanceof Boolean flag) {
                settings.put(field.getName(), flag);
            } else if (value instanceof Number number) {
                putNumber(settings, field.getName(), number);
            } else if (value instanceof List<?> names) {
                settings.put(field.getName(), names.stream().map(String::valueOf).collect(Collectors.joining(",")));
            } else if (value != null) {
                settings.put(field.getName(), value.toString());
            }
        } catch (ReflectiveOperationException | RuntimeException e) {
            // The audit then takes the default of this version.
        }
    }

    private static void putNumber(ObjectNode settings, String name, Number number) {
        if (number.doubleValue() == number.longValue()) {
            settings.put(name, number.longValue());
        } else {
            settings.put(name, number.doubleValue());
        }
    }

    /** Returns whether the trace was complete from the start until now. */
    boolean loseTheStart() {
        boolean before = fields.get("complete_from_start").booleanValue();
        fields.put("complete_from_start", false);
        return before;
    }

    String json() throws JsonProcessingException {
        return new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(fields) + "\n";
    }
}
