package dispatchaudit.recorder;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Rows that were lost and that no gap row has named yet, by topic and subscription. Bounded: beyond so many groups one gap
 * stands for everything.
 */
final class Drops {
    static final int GROUPS_MAX = 10_000;

    private final Map<Group, Range> ranges = new HashMap<>();
    /** The range that was asked for last, because rows of one group come together. */
    private Group latestGroup;
    private Range latest;
    private long dropped;

    /** The rows of one group that were lost: the first, the last, and how many. */
    private static final class Range {
        private long first;
        private long firstTsUs;
        private long last;
        private long count;
        private final EnumSet<Row.Event> events = EnumSet.noneOf(Row.Event.class);

        private void add(long from, long fromTsUs, long to, long rows) {
            if (count == 0 || from < first) {
                first = from;
                firstTsUs = fromTsUs;
            }
            last = Math.max(last, to);
            count += rows;
        }

        private void add(Range other) {
            add(other.first, other.firstTsUs, other.last, other.count);
            events.addAll(other.events);
        }
    }

    /** A few dozen nanoseconds under a lock that only lost rows take: a full queue makes nobody wait for a disk. */
    synchronized void add(Row row) {
        Range range = range(row.group);
        if (row instanceof Gap gap) {
            // These rows are counted already; only their gap has to be written once more.
            range.add(gap.range);
            return;
        }
        range.add(row.seq, row.tsUs, row.seq, 1);
        range.events.add(row.event);
        dropped++;
    }

    /** Takes over the rows of another collection. */
    void addAll(Drops others) {
        long count = others.count();
        Map<Group, Range> taken = others.take();
        others.clear();
        synchronized (this) {
            taken.forEach((group, range) -> range(group).add(range));
            dropped += count;
        }
    }

    /** Records that something was missed that no row was made of: whatever happened from a moment to another. */
    synchronized void addUnseen(Group group, Row.Event event, Moment from, Moment to) {
        Range range = range(group);
        range.add(from.seq(), from.tsUs(), to.seq(), 1);
        range.events.add(event);
        dropped++;
    }

    private Range range(Group group) {
        if (group != latestGroup) {
            latest = find(group);
            latestGroup = group;
        }
        return latest;
    }

    private Range find(Group group) {
        Range found = ranges.get(group);
        if (found == null) {
            Group counted = ranges.size() < GROUPS_MAX ? group : Group.EVERYTHING;
            found = ranges.computeIfAbsent(counted, g -> new Range());
        }
        return found;
    }

    /** Whether there is nothing to say. */
    synchronized boolean isEmpty() {
        return ranges.isEmpty();
    }

    /** How many rows were lost since the start, or since {@link #clear}. */
    synchronized long count() {
        return dropped;
    }

    /** Returns a gap row for each group that lost rows, and forgets them. */
    List<Gap> takeGaps() {
        List<Gap> gaps = new ArrayList<>();
        take().forEach((group, range) -> gaps.add(new Gap(group, range)));
        return gaps;
    }

    private synchronized Map<Group, Range> take() {
        Map<Group, Range> taken = new HashMap<>(ranges);
        forget();
        return taken;
    }

    synchronized void clear() {
        forget();
        dropped = 0;
    }

    private void forget() {
        ranges.clear();
        latestGroup = null;
        latest = null;
    }

    /** Names the rows of one group that were lost. */
    static final class Gap extends Row {
        private static final byte[] HEAD = head("gap", null);

        private final Range range;
        private final String columns;

        Gap(Group group, Range range) {
            super(new Moment(range.first, range.firstTsUs), group, Event.STATS);
            this.range = range;
            columns = ",\"seq_end\":" + range.last + ",\"dropped\":" + range.count + ",\"dropped_events\":["
                    + range.events.stream().map(event -> '"' + event.text + '"').collect(Collectors.joining(",")) + "]";
        }

        /** Whether it lost rows without which an audit does not know who is connected, or which ranges they have. */
        boolean needsSnapshot() {
            return range.events.stream().anyMatch(Event::isReserved);
        }

        @Override
        byte[] head() {
            return HEAD;
        }

        @Override
        void writeColumns(JsonLine line, Keys keys) {
            line.raw(group.json()).raw(JsonLine.bytesOf(columns));
        }
    }
}
