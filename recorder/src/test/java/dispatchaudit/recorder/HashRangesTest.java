package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.List;
import org.apache.pulsar.client.api.Range;
import org.junit.jupiter.api.Test;

class HashRangesTest {
    private static HashRanges ranges(int... ends) {
        return HashRanges.of(Arrays.stream(ends).mapToObj(end -> Range.of(end - 9, end)).toList());
    }

    private static String written(HashRanges now, HashRanges former) {
        StringBuilder json = new StringBuilder();
        now.write(json, former);
        return json.toString();
    }

    @Test
    void allRangesAreWrittenWhereNothingCameBefore() {
        assertEquals(",\"key_hash_ranges\":[[1,10],[21,30]]", written(ranges(10, 30), null));
        assertEquals(",\"key_hash_ranges\":[]", written(ranges(), null));
    }

    @Test
    void nothingIsWrittenWhereNothingHasChanged() {
        assertEquals("", written(ranges(10, 30), ranges(10, 30)));
    }

    @Test
    void whatCameAndWhatWentIsWrittenIfItIsLessThanAll() {
        assertEquals(",\"key_hash_ranges_changed\":[[21,30],[31,40]]",
                written(ranges(10, 40, 50), ranges(10, 30, 50)));
        assertEquals(",\"key_hash_ranges\":[[31,40]]", written(ranges(40), ranges(10, 30)));
    }

    @Test
    void rangesThatAreThereTwiceAreWrittenAsTheyAre() {
        HashRanges twice = HashRanges.of(List.of(Range.of(1, 10), Range.of(1, 10), Range.of(11, 20), Range.of(21, 30)));
        assertEquals(",\"key_hash_ranges\":[[1,10],[1,10],[11,20],[21,30]]", written(twice, ranges(10, 20, 30)));
    }

    @Test
    void endsOfThirtyOneBitsAreWhole() {
        HashRanges wide = HashRanges.of(List.of(Range.of(1_999_999_999, Integer.MAX_VALUE)));
        assertEquals(",\"key_hash_ranges\":[[1999999999,2147483647]]", written(wide, null));
    }
}
