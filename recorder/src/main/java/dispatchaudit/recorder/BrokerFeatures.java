package dispatchaudit.recorder;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.impl.ManagedCursorImpl;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Dispatcher;
import org.apache.pulsar.broker.service.StickyKeyConsumerSelector;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.policies.data.HierarchyTopicPolicies;
import org.apache.pulsar.common.policies.data.stats.ConsumerStatsImpl;
import org.apache.pulsar.common.protocol.Commands;

/**
 * What brokers of different releases name differently, and what only some of them have. No release is asked for its version:
 * each member is looked for when this class is loaded. A broker that lacks one loses that field of the trace, and no other.
 */
final class BrokerFeatures {
    private static final String SERVICE = "org.apache.pulsar.broker.service.";
    /** Key_Shared of 3.x has one class, which 4.0 took apart (PIP-379). */
    private static final String WHOLE = SERVICE + "persistent.PersistentStickyKeyDispatcherMultipleConsumers";
    private static final Class<?> KEY_SHARED = type(SERVICE + "StickyKeyDispatcher", WHOLE);
    private static final Class<?> PERSISTENT =
            type(SERVICE + "persistent.AbstractPersistentDispatcherMultipleConsumers", WHOLE);
    private static final Class<?> DRAINING_HASH = type("org.apache.pulsar.common.policies.data.DrainingHash");

    /** Fields of a snapshot, each with the member of the broker that has its value. */
    static final Map<String, Member> OF_DISPATCHER = new LinkedHashMap<>();
    static final Map<String, Member> OF_FILTERS = new LinkedHashMap<>();
    static final Map<String, Member> OF_CURSOR = new LinkedHashMap<>();
    static final Map<String, Member> OF_CONSUMER = new LinkedHashMap<>();
    static final Map<String, Member> OF_CONSUMER_STATS = new LinkedHashMap<>();
    static final Map<String, Member> OF_DRAINING_HASH = new LinkedHashMap<>();

    static {
        OF_DISPATCHER.put("msg_in_replay", Member.of(PERSISTENT, "getNumberOfMessagesInReplay"));
        OF_DISPATCHER.put("unacked_messages", Member.of(PERSISTENT, "getTotalUnackedMessages"));
        OF_DISPATCHER.put("key_shared_mode", Member.of(KEY_SHARED, "getKeySharedMode"));
        OF_DISPATCHER.put("allow_out_of_order_delivery", Member.of(KEY_SHARED, "isAllowOutOfOrderDelivery"));
        OF_DISPATCHER.put("blocked_subscription_on_unacked_msgs", Member.of(PERSISTENT, "isBlockedDispatcherOnUnackedMsgs"));
        OF_DISPATCHER.put("msg_delayed", Member.of(Dispatcher.class, "getNumberOfDelayedMessages"));
        OF_DISPATCHER.put("subscription_have_pending_read",
                Member.of(PERSISTENT, "isHavePendingRead", "havePendingRead"));
        OF_DISPATCHER.put("subscription_have_pending_replay_read",
                Member.of(PERSISTENT, "isHavePendingReplayRead", "havePendingReplayRead"));

        OF_FILTERS.put("filter_processed_msg_count", Member.of(Dispatcher.class, "getFilterProcessedMsgCount"));
        OF_FILTERS.put("filter_accepted_msg_count", Member.of(Dispatcher.class, "getFilterAcceptedMsgCount"));
        OF_FILTERS.put("filter_rejected_msg_count", Member.of(Dispatcher.class, "getFilterRejectedMsgCount"));
        OF_FILTERS.put("filter_rescheduled_msg_count", Member.of(Dispatcher.class, "getFilterRescheduledMsgCount"));

        OF_CURSOR.put("read_position", Member.of(ManagedCursor.class, "getReadPosition"));
        OF_CURSOR.put("mark_delete_position", Member.of(ManagedCursor.class, "getMarkDeletedPosition"));
        OF_CURSOR.put("non_contiguous_deleted_messages_ranges",
                Member.of(ManagedCursor.class, "getTotalNonContiguousDeletedMessagesRange"));
        OF_CURSOR.put("waiting_read_op", Member.of(ManagedCursorImpl.class, "hasPendingReadRequest"));
        OF_CURSOR.put("pending_read_ops", Member.of(ManagedCursorImpl.class, "getPendingReadOpsCount"));

        OF_CONSUMER.put("available_permits", Member.of(Consumer.class, "getAvailablePermits"));
        OF_CONSUMER.put("unacked_messages", Member.of(Consumer.class, "getUnackedMessages"));

        Class<?> stats = ConsumerStatsImpl.class;
        OF_CONSUMER_STATS.put("blocked_consumer_on_unacked_msgs", Member.of(stats, "blockedConsumerOnUnackedMsgs"));
        OF_CONSUMER_STATS.put("msg_out_counter", Member.of(stats, "msgOutCounter"));
        OF_CONSUMER_STATS.put("last_acked_timestamp", Member.of(stats, "lastAckedTimestamp"));
        OF_CONSUMER_STATS.put("last_consumed_timestamp", Member.of(stats, "lastConsumedTimestamp"));
        OF_CONSUMER_STATS.put("last_consumed_flow_timestamp", Member.of(stats, "lastConsumedFlowTimestamp"));
        OF_CONSUMER_STATS.put("draining_hashes_cleared_total", Member.of(stats, "getDrainingHashesClearedTotal"));
        OF_CONSUMER_STATS.put("read_position_when_joining", Member.of(stats, "getReadPositionWhenJoining"));

        OF_DRAINING_HASH.put("hash", Member.of(DRAINING_HASH, "getHash"));
        OF_DRAINING_HASH.put("unacked_messages", Member.of(DRAINING_HASH, "getUnackMsgs"));
        OF_DRAINING_HASH.put("blocked_attempts", Member.of(DRAINING_HASH, "getBlockedAttempts"));
    }

    static final Member RANGES = Member.of(KEY_SHARED, "getConsumerKeyHashRanges");
    static final Member RECENTLY_JOINED = Member.of(KEY_SHARED, "getRecentlyJoinedConsumers");
    static final Member DRAINING_HASHES = Member.of(ConsumerStatsImpl.class, "getDrainingHashes");
    static final Member PAUSES_ON_ACK_STATE =
            Member.of(HierarchyTopicPolicies.class, "getDispatcherPauseOnAckStatePersistentEnabled");
    static final Member USES_CLASSIC =
            Member.of(ServiceConfiguration.class, "isSubscriptionKeySharedUseClassicPersistentImplementation");

    private static final Member SELECTOR = Member.of(KEY_SHARED, "getSelector");
    private static final Method MAKE_HASH = method(StickyKeyConsumerSelector.class, "makeStickyKeyHash", byte[].class);
    /** Whether keys are routed by their whole hash, for each selector alike: before 4.0 (contract 1.3). */
    static final boolean ROUTES_BY_WHOLE_HASH = MAKE_HASH != null && Modifier.isStatic(MAKE_HASH.getModifiers());
    private static final MethodHandle HASH = hash();
    private static final MethodHandle STICKY_KEY =
            handle(method(Commands.class, "resolveStickyKey", MessageMetadata.class));
    /** The sticky key of all messages without a key, before 4.0 (contract 1.1). */
    private static final byte[] NONE_KEY = "NONE_KEY".getBytes(StandardCharsets.UTF_8);

    private BrokerFeatures() {
    }

    /** Fields of the trace that this broker has no value for. */
    static List<String> missing() {
        return Stream.concat(
                Stream.of(OF_DISPATCHER, OF_FILTERS, OF_CURSOR, OF_CONSUMER, OF_CONSUMER_STATS).flatMap(fields -> fields.entrySet().stream()),
                Map.of("key_hash_ranges", RANGES, "consumers_after_mark_delete_position", RECENTLY_JOINED,
                        "draining_hashes", DRAINING_HASHES).entrySet().stream())
                .filter(field -> !field.getValue().exists()).map(Map.Entry::getKey).sorted().toList();
    }

    /** Whether it is the dispatcher of a Key_Shared subscription of a persistent topic. */
    static boolean isKeyShared(Dispatcher dispatcher) {
        return KEY_SHARED != null && PERSISTENT != null && KEY_SHARED.isInstance(dispatcher)
                && PERSISTENT.isInstance(dispatcher);
    }

    /** The sticky key of an entry, as this broker resolves it (contract 1.1). */
    static byte[] stickyKey(MessageMetadata metadata) {
        if (STICKY_KEY != null) {
            try {
                return (byte[]) STICKY_KEY.invokeExact(metadata);
            } catch (RuntimeException | Error e) {
                throw e;
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
        }
        if (metadata.hasOrderingKey()) {
            return metadata.getOrderingKey();
        }
        if (!metadata.hasPartitionKey()) {
            return ROUTES_BY_WHOLE_HASH ? NONE_KEY
                    : (metadata.getProducerName() + "-" + metadata.getSequenceId()).getBytes(StandardCharsets.UTF_8);
        }
        return metadata.isPartitionKeyB64Encoded() ? Base64.getDecoder().decode(metadata.getPartitionKey())
                : metadata.getPartitionKey().getBytes(StandardCharsets.UTF_8);
    }

    /** The hash that routes a key in a Key_Shared dispatcher; -1 where this broker does not say. */
    static int hashOf(Dispatcher dispatcher, byte[] key) {
        if (HASH == null) {
            return -1;
        }
        try {
            return (int) HASH.invokeExact(SELECTOR.of(dispatcher), key);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    private static MethodHandle hash() {
        MethodHandle found = handle(MAKE_HASH);
        if (found == null || !SELECTOR.exists()) {
            return null;
        }
        MethodHandle ofSelector = ROUTES_BY_WHOLE_HASH ? MethodHandles.dropArguments(found, 0, Object.class) : found;
        return ofSelector.asType(MethodType.methodType(int.class, Object.class, byte[].class));
    }

    private static MethodHandle handle(Method method) {
        try {
            return method == null ? null : MethodHandles.publicLookup().unreflect(method);
        } catch (IllegalAccessException e) {
            return null;
        }
    }

    private static Method method(Class<?> owner, String name, Class<?>... parameters) {
        try {
            return owner.getMethod(name, parameters);
        } catch (ReflectiveOperationException | LinkageError e) {
            return null;
        }
    }

    /** The first of these classes that this broker has; null: it has none of them. */
    private static Class<?> type(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name, false, Dispatcher.class.getClassLoader());
            } catch (ClassNotFoundException | LinkageError e) {
                // Another release.
            }
        }
        return null;
    }
}
