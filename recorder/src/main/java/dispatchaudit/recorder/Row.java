package dispatchaudit.recorder;

/** A row of the trace between the hook that saw it and the writer. It keeps what the hook knew; the writer makes the text. */
abstract class Row {
    /** Names of events, in the order in which a gap names them; from JOIN on, few of them say much. */
    enum Event {
        PUBLISH, DISPATCH, ACK, REDELIVER, JOIN, LEAVE, RESET, STATS, SETTINGS, HANG, HEARTBEAT, END;

        final String text = name().toLowerCase(java.util.Locale.ROOT);

        /** Whether an audit loses more than this row without it, so that it is dropped last. */
        boolean isReserved() {
            return compareTo(JOIN) >= 0;
        }
    }

    private static final byte[] SEQ = JsonLine.bytesOf(",\"seq\":");
    private static final byte[] TS = JsonLine.bytesOf(",\"ts_us\":");

    final long seq;
    final long tsUs;
    final Group group;
    final Event event;

    Row(Moment moment, Group group, Event event) {
        seq = moment.seq();
        tsUs = moment.tsUs();
        this.group = group;
        this.event = event;
    }

    /** Writes the row as an object and the end of its line. */
    final void write(JsonLine line, byte[] broker, Keys keys) {
        line.raw(head()).raw(SEQ).number(seq).raw(TS).number(tsUs).raw(broker);
        writeColumns(line, keys);
        line.raw('}').raw('\n');
    }

    /** The beginning of the object: event and phase. */
    abstract byte[] head();

    /** Writes all further columns, each with a comma before it. */
    abstract void writeColumns(JsonLine line, Keys keys);

    static byte[] head(String event, String phase) {
        return JsonLine.bytesOf("{\"event\":\"" + event + "\"" + (phase == null ? "" : ",\"phase\":\"" + phase + "\""));
    }
}
