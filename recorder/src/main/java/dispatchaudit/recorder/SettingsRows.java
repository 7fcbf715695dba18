package dispatchaudit.recorder;

import com.google.common.collect.Interner;
import com.google.common.collect.Interners;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * Rows of the settings of subscriptions: all of them at the first look at a subscription object and at the first look of
 * each file, those that changed at other looks. Only the thread that takes snapshots looks.
 */
final class SettingsRows {
    /** What a look found. */
    private record Look(Moment moment, Map<String, EffectiveSettings.Value> values) {
    }

    private final Recording recording;
    /** The last look at each subscription. It outlives the broker's object: between two of them a policy may change. */
    private final ConcurrentMap<Group, Look> looks = new ConcurrentHashMap<>();
    /** Most subscriptions of a broker have the same settings. */
    private final Interner<Map<String, EffectiveSettings.Value>> known = Interners.newWeakInterner();

    SettingsRows(Recording recording) {
        this.recording = recording;
    }

    /**
     * Notes what a subscription's settings are, and writes what a reader of the trace does not know yet.
     *
     * @param moment from before they were read
     * @param breaks how often rows could not refer to former ones so far: a file began, or rows were lost
     */
    void looked(RecordedSubscription subscription, Moment moment, Map<String, EffectiveSettings.Value> values, int breaks) {
        Group group = subscription.group();
        Look before = looks.put(group, new Look(moment, known.intern(values)));
        Map<String, EffectiveSettings.Value> changed = new LinkedHashMap<>(values);
        if (before != null) {
            changed.entrySet().removeAll(before.values().entrySet());
        }
        boolean first = subscription.settingsOfBreak < 0;
        boolean all = subscription.settingsOfBreak != breaks;
        if (all || !changed.isEmpty()) {
            // Nobody looked between the subscription's first row and this one: what is found counts from there on.
            Moment from = first ? subscription.met() : moment;
            boolean differs = before != null && !changed.isEmpty() && before.moment().seq() < from.seq();
            String since = differs ? ",\"seq_begin\":" + before.moment().seq() : "";
            recording.put(new Rows.Text(from, group, Row.Event.SETTINGS, null, json(group, since, all ? values : changed)));
        }
        subscription.settingsOfBreak = breaks;
    }

    /** The subscriptions of a topic are gone for good. */
    void forget(String topic) {
        looks.keySet().removeIf(group -> group.topic().equals(topic));
    }

    private static String json(Group group, String since, Map<String, EffectiveSettings.Value> values) {
        return new String(group.json(), java.nio.charset.StandardCharsets.UTF_8) + since
                + ",\"settings\":" + object(values, EffectiveSettings.Value::json)
                + ",\"sources\":" + object(values, value -> '"' + value.source() + '"');
    }

    private static String object(Map<String, EffectiveSettings.Value> values,
                                 Function<EffectiveSettings.Value, String> json) {
        return values.entrySet().stream().map(entry -> '"' + entry.getKey() + "\":" + json.apply(entry.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
    }
}
