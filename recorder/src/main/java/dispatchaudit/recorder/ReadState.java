package dispatchaudit.recorder;

import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.ManagedCursorImpl;
import org.apache.pulsar.broker.service.persistent.AbstractPersistentDispatcherMultipleConsumers;

/**
 * Whether a dispatcher reads, and what keeps it from reading: fields of {@code stats} and {@code stats-internal} that no
 * hook sees.
 *
 * @param blocked the subscription has reached its limit of unacknowledged messages, and has not come down to half of it
 * @param delayed messages that wait for their time
 * @param holes ranges of entries that were acknowledged above mark-delete
 * @param havePendingRead the dispatcher waits for entries that it has not read before
 * @param havePendingReplayRead it waits for entries of the replay queue
 * @param waitingReadOp the cursor waits for the next entry to be published; null: this kind of cursor does not say
 * @param pendingReadOps reads of the cursor that storage has not answered; null: this kind of cursor does not say
 * @param lastConfirmed the last entry of the topic
 */
record ReadState(boolean blocked, long delayed, int holes, boolean havePendingRead, boolean havePendingReplayRead,
                 Boolean waitingReadOp, Integer pendingReadOps, Position lastConfirmed) {

    /** Reads it under the lock of the dispatcher. */
    static ReadState of(ManagedCursor cursor, AbstractPersistentDispatcherMultipleConsumers dispatcher) {
        ManagedCursorImpl known = cursor instanceof ManagedCursorImpl found ? found : null;
        return new ReadState(dispatcher.isBlockedDispatcherOnUnackedMsgs(), dispatcher.getNumberOfDelayedMessages(),
                cursor.getTotalNonContiguousDeletedMessagesRange(),
                dispatcher.isHavePendingRead(), dispatcher.isHavePendingReplayRead(),
                known == null ? null : known.hasPendingReadRequest(), known == null ? null : known.getPendingReadOpsCount(),
                cursor.getManagedLedger().getLastConfirmedEntry());
    }

    /** Returns its fields of a snapshot, with a comma in front of each. */
    String json() {
        return ",\"blocked_subscription_on_unacked_msgs\":" + blocked
                + ",\"msg_delayed\":" + delayed
                + ",\"non_contiguous_deleted_messages_ranges\":" + holes
                + ",\"subscription_have_pending_read\":" + havePendingRead
                + ",\"subscription_have_pending_replay_read\":" + havePendingReplayRead
                + (waitingReadOp == null ? "" : ",\"waiting_read_op\":" + waitingReadOp)
                + (pendingReadOps == null ? "" : ",\"pending_read_ops\":" + pendingReadOps)
                + ",\"last_confirmed_entry\":\"" + SnapshotText.text(lastConfirmed) + '"';
    }
}
