package dispatchaudit.recorder;

/** The rows of traffic, which are written by the thousand: one class for each kind. */
final class Rows {
    private Rows() {
    }

    /**
     * The part of a message's metadata that a trace keeps.
     *
     * @param batchKeys of the messages of a batch, null for one without a key; null: the batch was not looked into
     */
    record Message(Group topic, Keys.Key key, int batchSize, String[] batchKeys, String producer, long sequenceId, long deliverAtMs,
                   Transaction transaction) {
    }

    /** A transaction's id, which the broker writes as (most,least). */
    record Transaction(long mostBits, long leastBits) {
        private static final byte[] NAME = JsonLine.bytesOf(",\"transaction\":\"(");
        private static final byte[] END = JsonLine.bytesOf(")\"");

        /** The column of a row about it; nothing where there is none. */
        static void write(JsonLine line, Transaction transaction) {
            if (transaction != null) {
                line.raw(NAME).number(transaction.mostBits).raw(',').number(transaction.leastBits).raw(END);
            }
        }
    }

    /** Position of an entry, or of a part of a batch. */
    record Position(long ledgerId, long entryId, long[] ackSet) {
    }

    private static final byte[] LEDGER = JsonLine.bytesOf(",\"ledger_id\":");
    private static final byte[] ENTRY = JsonLine.bytesOf(",\"entry_id\":");
    private static final byte[] BATCH = JsonLine.bytesOf(",\"batch_size\":");
    private static final byte[] ACK_SET = JsonLine.bytesOf(",\"ack_set\":");

    static final class Publish extends Row {
        private static final byte[] HEAD = head("publish", null);
        private static final byte[] PRODUCER = JsonLine.bytesOf(",\"producer_name\":");
        private static final byte[] SEQUENCE = JsonLine.bytesOf(",\"sequence_id\":");
        private static final byte[] TIME = JsonLine.bytesOf(",\"publish_time_ms\":");
        private static final byte[] SIZE = JsonLine.bytesOf(",\"size_bytes\":");
        private static final byte[] DELIVER_AT = JsonLine.bytesOf(",\"deliver_at_ms\":");

        private final long ledgerId;
        private final long entryId;
        private final long sizeBytes;
        private final Message message;

        Publish(Moment moment, long ledgerId, long entryId, long sizeBytes, Message message) {
            super(moment, message.topic(), Event.PUBLISH);
            this.ledgerId = ledgerId;
            this.entryId = entryId;
            this.sizeBytes = sizeBytes;
            this.message = message;
        }

        @Override
        byte[] head() {
            return HEAD;
        }

        @Override
        void writeColumns(JsonLine line, Keys keys) {
            line.raw(group.json()).raw(LEDGER).number(ledgerId).raw(ENTRY).number(entryId)
                    .raw(BATCH).number(message.batchSize());
            keys.write(line, message.key(), null);
            if (message.batchKeys() != null) {
                keys.writeBatch(line, message.batchKeys(), message.key().publishTimeMs());
            }
            if (message.producer() != null) {
                // Without its producer a sequence id would be taken for that of another one's chunk.
                line.raw(PRODUCER).text(message.producer()).raw(SEQUENCE).number(message.sequenceId());
            }
            line.raw(TIME).number(message.key().publishTimeMs()).raw(SIZE).number(sizeBytes);
            if (message.deliverAtMs() > 0) {
                line.raw(DELIVER_AT).number(message.deliverAtMs());
            }
            Transaction.write(line, message.transaction());
        }
    }

    static final class DispatchStart extends Row {
        private static final byte[] HEAD = head("dispatch", "start");

        private final RecordedConsumer consumer;
        private final long ledgerId;
        private final long entryId;
        private final int batchSize;
        private final long[] ackSet;
        private final Keys.Key key;

        DispatchStart(Moment moment, RecordedConsumer consumer, long ledgerId, long entryId, int batchSize,
                      long[] ackSet, Keys.Key key) {
            super(moment, consumer.group(), Event.DISPATCH);
            this.consumer = consumer;
            this.ledgerId = ledgerId;
            this.entryId = entryId;
            this.batchSize = batchSize;
            this.ackSet = ackSet;
            this.key = key;
        }

        @Override
        byte[] head() {
            return HEAD;
        }

        @Override
        void writeColumns(JsonLine line, Keys keys) {
            line.raw(consumer.json()).raw(LEDGER).number(ledgerId).raw(ENTRY).number(entryId).raw(BATCH).number(batchSize);
            if (ackSet != null && ackSet.length > 0) {
                line.raw(ACK_SET).longs(ackSet);
            }
            keys.write(line, key, consumer.subscription());
        }
    }

    static final class DispatchEnd extends Row {
        private static final byte[] HEAD = head("dispatch", "end");
        private static final byte[] REDELIVERY = JsonLine.bytesOf(",\"redelivery_count\":");

        private final RecordedConsumer consumer;
        private final long ledgerId;
        private final long entryId;
        private final int redeliveryCount;

        DispatchEnd(Moment moment, RecordedConsumer consumer, long ledgerId, long entryId, int redeliveryCount) {
            super(moment, consumer.group(), Event.DISPATCH);
            this.consumer = consumer;
            this.ledgerId = ledgerId;
            this.entryId = entryId;
            this.redeliveryCount = redeliveryCount;
        }

        @Override
        byte[] head() {
            return HEAD;
        }

        @Override
        void writeColumns(JsonLine line, Keys keys) {
            line.raw(consumer.json()).raw(LEDGER).number(ledgerId).raw(ENTRY).number(entryId)
                    .raw(REDELIVERY).number(redeliveryCount);
        }
    }

    /** A command of a consumer about entries: an ack, or a request to send them again. */
    static final class OfPositions extends Row {
        private static final byte[] ACK_START = head("ack", "start");
        private static final byte[] ACK_END = head("ack", "end");
        private static final byte[] REDELIVER = head("redeliver", null);
        private static final byte[] INDIVIDUAL = JsonLine.bytesOf(",\"ack_type\":\"individual\"");
        private static final byte[] CUMULATIVE = JsonLine.bytesOf(",\"ack_type\":\"cumulative\"");
        private static final byte[] POSITIONS = JsonLine.bytesOf(",\"positions\":[");
        private static final byte[] FIRST = JsonLine.bytesOf("{\"ledger_id\":");

        private final RecordedConsumer consumer;
        private final byte[] head;
        private final byte[] type;
        private final Position[] positions;
        private final Transaction transaction;

        private OfPositions(Moment moment, RecordedConsumer consumer, Event event, byte[] head, byte[] type,
                            Position[] positions, Transaction transaction) {
            super(moment, consumer.group(), event);
            this.consumer = consumer;
            this.head = head;
            this.type = type;
            this.positions = positions;
            this.transaction = transaction;
        }

        static OfPositions ack(Moment moment, RecordedConsumer consumer, boolean end, boolean cumulative,
                               Position[] positions, Transaction transaction) {
            return new OfPositions(moment, consumer, Event.ACK, end ? ACK_END : ACK_START,
                    cumulative ? CUMULATIVE : INDIVIDUAL, positions, transaction);
        }

        static OfPositions redeliver(Moment moment, RecordedConsumer consumer, Position[] positions) {
            return new OfPositions(moment, consumer, Event.REDELIVER, REDELIVER, new byte[0], positions, null);
        }

        @Override
        byte[] head() {
            return head;
        }

        @Override
        void writeColumns(JsonLine line, Keys keys) {
            line.raw(consumer.json()).raw(type).raw(POSITIONS);
            for (int i = 0; i < positions.length; i++) {
                Position position = positions[i];
                if (i > 0) {
                    line.raw(',');
                }
                line.raw(FIRST).number(position.ledgerId()).raw(ENTRY).number(position.entryId());
                if (position.ackSet() != null) {
                    line.raw(ACK_SET).longs(position.ackSet());
                }
                line.raw('}');
            }
            line.raw(']');
            Transaction.write(line, transaction);
        }
    }

    /** A row whose columns are text already, because few are written: joins, leaves, resets, snapshots. */
    static final class Text extends Row {
        private final byte[] head;
        private final byte[] columns;

        Text(Moment moment, Group group, Event event, String phase, String columns) {
            super(moment, group, event);
            this.head = head(event.text, phase);
            this.columns = JsonLine.bytesOf(columns);
        }

        @Override
        byte[] head() {
            return head;
        }

        @Override
        void writeColumns(JsonLine line, Keys keys) {
            line.raw(columns);
        }
    }
}
