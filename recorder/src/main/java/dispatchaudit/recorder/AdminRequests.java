package dispatchaudit.recorder;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiPredicate;
import java.util.function.Predicate;
import org.apache.pulsar.common.naming.TopicName;

/** Which requests to the admin API reset subscriptions, and which ones: {@code /admin/v2/persistent} and {@code namespaces}. */
final class AdminRequests {
    /**
     * A reset that somebody asked for.
     *
     * @param reason as in the column of that name
     * @param restarts whether everything starts anew, or mark-delete only moves
     * @param concerns the subscriptions that it resets
     */
    record Asked(String reason, boolean restarts, Predicate<Group> concerns) {
    }

    private static final String ROOT = "/admin/v2/";

    private final BiPredicate<String, String> isInBundle;

    /**
     * Returns a reader of requests.
     *
     * @param isInBundle whether a topic is in the bundle of that range
     */
    AdminRequests(BiPredicate<String, String> isInBundle) {
        this.isInBundle = isInBundle;
    }

    /** Returns the reset that a request asks for, or null. */
    Asked reset(String method, String uri) {
        if (method.equals("GET") || !uri.startsWith(ROOT)) {
            return null;
        }
        List<String> parts = Arrays.stream(uri.substring(ROOT.length()).split("/"))
                .map(part -> URLDecoder.decode(part, StandardCharsets.UTF_8)).toList();
        if (parts.size() >= 4 && parts.get(0).equals("persistent")) {
            return ofTopic(method, "persistent://" + String.join("/", parts.subList(1, 4)), parts.subList(4, parts.size()));
        }
        if (parts.size() >= 4 && parts.get(0).equals("namespaces")) {
            return ofNamespace(method, parts.get(1) + "/" + parts.get(2), parts.subList(3, parts.size()));
        }
        return null;
    }

    private static Asked ofTopic(String method, String topic, List<String> rest) {
        Predicate<Group> allOfIt = group -> isOrHas(topic, group.topic());
        boolean deletes = method.equals("DELETE");
        String last = rest.isEmpty() ? "" : rest.get(0);
        if (deletes && (rest.isEmpty() || last.equals("partitions")) || last.equals("unload")) {
            return new Asked(RecordedSubscription.UNLOAD, true, allOfIt);
        }
        if (deletes && last.equals("truncate")) {
            return new Asked("clear", false, allOfIt);
        }
        if (last.equals("all_subscription")) {
            return new Asked("expire", false, allOfIt);
        }
        if (!last.equals("subscription") || rest.size() < 2) {
            return null;
        }
        Predicate<Group> concerns = allOfIt.and(group -> group.subscription().equals(rest.get(1)));
        if (rest.size() == 2) {
            return deletes ? new Asked(RecordedSubscription.UNLOAD, true, concerns) : null;
        }
        return switch (rest.get(2)) {
            case "resetcursor" -> new Asked(RecordedSubscription.SEEK, true, concerns);
            case "skip" -> new Asked("skip", false, concerns);
            case "skip_all" -> new Asked("clear", false, concerns);
            case "expireMessages" -> new Asked("expire", false, concerns);
            default -> null;
        };
    }

    private Asked ofNamespace(String method, String namespace, List<String> rest) {
        // Either an operation on the namespace, or a bundle and an operation on it.
        String bundle = rest.get(0).startsWith("0x") ? rest.get(0) : null;
        List<String> operation = bundle == null ? rest : rest.subList(1, rest.size());
        if (operation.isEmpty()) {
            return null;
        }
        Predicate<Group> concerns = group -> TopicName.get(group.topic()).getNamespace().equals(namespace)
                && (bundle == null || isInBundle.test(group.topic(), bundle));
        return switch (operation.get(0)) {
            case "unload", "split" -> new Asked(RecordedSubscription.UNLOAD, true, concerns);
            case "clearBacklog" -> new Asked("clear", false, operation.size() == 1 ? concerns
                    : concerns.and(group -> group.subscription().equals(operation.get(1))));
            default -> null;
        };
    }

    private static boolean isOrHas(String asked, String partition) {
        return partition.equals(asked) || TopicName.get(partition).getPartitionedTopicName().equals(asked);
    }
}
