package dispatchaudit.recorder;

import java.lang.reflect.Field;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;
import org.apache.pulsar.broker.service.persistent.PersistentTopic;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.EntryFilters;
import org.apache.pulsar.common.policies.data.HierarchyTopicPolicies;
import org.apache.pulsar.common.policies.data.PolicyHierarchyValue;

/**
 * The settings that a subscription has at this moment: policies, which the broker merges from topic, namespace and
 * {@code broker.conf}, and the broker's configuration, which administrators may change while it runs. Names are those of
 * {@code broker.conf}, wherever a value comes from. To read them takes no lock of the broker.
 */
final class EffectiveSettings {
    /**
     * A value and where it comes from.
     *
     * @param json the value, a number, a boolean, or a text in quotes
     * @param source {@code subscription}, {@code topic}, {@code namespace}, {@code broker} or {@code dispatcher}
     */
    record Value(String json, String source) {
    }

    /** Settings that no policy overrides; those that a release does not have are left out. */
    private static final List<Field> OF_BROKER = List.of(
            "dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte",
            "dispatchThrottlingOnNonBacklogConsumerEnabled", "dispatchThrottlingOnBatchMessageEnabled",
            "keySharedLookAheadMsgInReplayThresholdPerConsumer", "keySharedLookAheadMsgInReplayThresholdPerSubscription",
            "keySharedUnblockingIntervalMs", "dispatcherMaxReadBatchSize", "dispatcherMinReadBatchSize",
            "dispatcherMaxReadSizeBytes").stream().map(EffectiveSettings::field).filter(Objects::nonNull).toList();

    private final Map<String, Value> values = new LinkedHashMap<>();

    private EffectiveSettings() {
    }

    /**
     * Reads the settings of a subscription.
     *
     * @param dispatcher the one that it has now
     * @return values by name, without those that this release of the broker does not let one read
     */
    static Map<String, Value> of(PersistentSubscription subscription, Dispatcher dispatcher) {
        EffectiveSettings found = new EffectiveSettings();
        PersistentTopic topic = (PersistentTopic) subscription.getTopic();
        HierarchyTopicPolicies policies = topic.getHierarchyTopicPolicies();
        ServiceConfiguration configuration = topic.getBrokerService().pulsar().getConfiguration();
        found.read(() -> found.unackedOfConsumer(policies, subscription));
        found.read(() -> found.policy("maxUnackedMessagesPerSubscription", policies.getMaxUnackedMessagesOnSubscription()));
        found.read(() -> found.policy("delayedDeliveryEnabled", policies.getDelayedDeliveryEnabled()));
        found.read(() -> found.policy("delayedDeliveryTickTimeMillis", policies.getDelayedDeliveryTickTimeMillis()));
        found.read(() -> found.policy("dispatcherPauseOnAckStatePersistentEnabled",
                (PolicyHierarchyValue<?>) BrokerFeatures.PAUSES_ON_ACK_STATE.of(policies)));
        found.read(() -> found.filters(policies.getEntryFilters()));
        found.read(() -> found.rate("dispatchThrottlingRatePerTopic", topic.getDispatchRate(),
                source(policies.getDispatchRate())));
        found.read(() -> found.rateOfSubscription(policies, topic.getSubscriptionDispatchRate(subscription.getName())));
        OF_BROKER.forEach(field -> found.read(() -> found.put(field.getName(), field.get(configuration), "broker")));
        if (BrokerFeatures.USES_CLASSIC.exists()) {
            // The switch counts when a dispatcher is made; this one may be older than the switch.
            found.put("subscriptionKeySharedUseClassicPersistentImplementation",
                    dispatcher.getClass().getSimpleName().endsWith("Classic"), "dispatcher");
        }
        return found.values;
    }

    @FunctionalInterface
    private interface Reader {
        void read() throws ReflectiveOperationException;
    }

    /** A member that a release does not have, or has in another shape, costs its value and nothing else. */
    private void read(Reader reader) {
        try {
            reader.read();
        } catch (LinkageError | ReflectiveOperationException | RuntimeException e) {
            // The audit then takes what trace.json says, or the default of this release.
        }
    }

    private void put(String name, Object value, String source) {
        values.put(name, new Value(value.toString(), source));
    }

    private void policy(String name, PolicyHierarchyValue<?> policy) {
        if (policy == null) {
            return;
        }
        put(name, policy.get(), source(policy));
    }

    /** Names of the filters with commas between them; an empty text: there are none. */
    private void filters(PolicyHierarchyValue<EntryFilters> policy) {
        EntryFilters filters = policy.get();
        String names = filters == null || filters.getEntryFilterNames() == null ? "" : filters.getEntryFilterNames();
        JsonLine line = new JsonLine();
        values.put("entryFilterNames",
                new Value(line.text(names).toString(), filters == null ? "broker" : source(policy)));
    }

    /** As {@code Consumer.getMaxUnackedMessages}: there is no limit where the cursor is not durable. */
    private void unackedOfConsumer(HierarchyTopicPolicies policies, PersistentSubscription subscription) {
        String name = "maxUnackedMessagesPerConsumer";
        if (subscription.getCursor().isDurable()) {
            policy(name, policies.getMaxUnackedMessagesOnConsumer());
        } else {
            put(name, 0, "subscription");
        }
    }

    /** A topic's policy may be for one subscription of it. */
    private void rateOfSubscription(HierarchyTopicPolicies policies, DispatchRate rate) {
        PolicyHierarchyValue<?> ofAll = policies.getSubscriptionDispatchRate();
        rate("dispatchThrottlingRatePerSubscription", rate, rate == ofAll.get() ? source(ofAll) : "subscription");
    }

    /** A rate that is relative to the one of publishes is what it adds to that one: dispatches are never slower. */
    private void rate(String name, DispatchRate rate, String source) {
        String from = rate.isRelativeToPublishRate() ? source + ", relative to the rate of publishes" : source;
        put(name + "InMsg", rate.getDispatchThrottlingRateInMsg(), from);
        put(name + "InByte", rate.getDispatchThrottlingRateInByte(), from);
        put(name + "PeriodInSeconds", rate.getRatePeriodInSecond(), from);
    }

    private static String source(PolicyHierarchyValue<?> policy) {
        Object value = policy.get();
        if (policy.getTopicValue() == null && value.equals(policy.getNamespaceValue())) {
            return "namespace";
        }
        // A policy of a topic for all clusters is neither of the three.
        return policy.getTopicValue() == null && value.equals(policy.getBrokerValue()) ? "broker" : "topic";
    }

    private static Field field(String name) {
        try {
            Field field = ServiceConfiguration.class.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }
}
