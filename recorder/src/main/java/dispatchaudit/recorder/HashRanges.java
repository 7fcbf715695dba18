package dispatchaudit.recorder;

import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;
import org.apache.pulsar.client.api.Range;

/**
 * The ranges of hashes of a consumer, both ends inclusive. On a ring each join and leave moves a hundred ranges of many
 * consumers, which have a hundred others each: so a row has what came and what went, where that is less than all.
 *
 * @param sorted each as one number, its start in the upper half
 */
record HashRanges(long[] sorted) {

    static HashRanges of(List<Range> ranges) {
        return new HashRanges(
                ranges.stream().mapToLong(range -> (long) range.getStart() << 32 | range.getEnd()).sorted().toArray());
    }

    /**
     * Writes the members of the JSON object of a consumer, each with a comma before it; none if nothing has changed.
     *
     * @param former in the row before; null: there is none that this may refer to
     */
    void write(StringBuilder json, HashRanges former) {
        if (former == null) {
            write(json, "key_hash_ranges", sorted);
            return;
        }
        if (Arrays.equals(sorted, former.sorted)) {
            return;
        }
        long[] added = without(sorted, former.sorted);
        long[] removed = without(former.sorted, sorted);
        // Of ranges that are there twice, a difference of sets says too little.
        boolean adds = former.sorted.length - removed.length + added.length == sorted.length;
        if (!adds || added.length + removed.length >= sorted.length || isTwice(sorted) || isTwice(former.sorted)) {
            write(json, "key_hash_ranges", sorted);
            return;
        }
        write(json, "key_hash_ranges_changed", LongStream.concat(Arrays.stream(removed), Arrays.stream(added)).toArray());
    }

    private static long[] without(long[] ranges, long[] others) {
        return Arrays.stream(ranges).filter(range -> Arrays.binarySearch(others, range) < 0).toArray();
    }

    private static boolean isTwice(long[] ranges) {
        for (int at = 1; at < ranges.length; at++) {
            if (ranges[at] == ranges[at - 1]) {
                return true;
            }
        }
        return false;
    }

    private static void write(StringBuilder json, String name, long[] ranges) {
        json.append(",\"").append(name).append("\":[");
        for (int at = 0; at < ranges.length; at++) {
            json.append(at == 0 ? "[" : ",[").append(ranges[at] >> 32).append(',').append((int) ranges[at]).append(']');
        }
        json.append(']');
    }
}
