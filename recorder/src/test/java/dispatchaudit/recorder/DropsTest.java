package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import org.junit.jupiter.api.Test;

class DropsTest {
    private static final Group ORDERS = Group.of("persistent://public/default/orders", "billing");
    private static final Group PUBLISHES = Group.of("persistent://public/default/orders", null);

    private final Moment.Clock clock = new Moment.Clock();

    private Row row(Group group, Row.Event event) {
        return new Rows.Text(clock.now(), group, event, null, "");
    }

    private static JsonNode json(Row row) throws Exception {
        JsonLine line = new JsonLine();
        row.write(line, new byte[0], Keys.plain());
        return new ObjectMapper().readTree(line.toString());
    }

    @Test
    void aGapNamesTheFirstAndTheLastRowOfEachGroup() throws Exception {
        Drops drops = new Drops();
        drops.add(row(ORDERS, Row.Event.DISPATCH));
        drops.add(row(PUBLISHES, Row.Event.PUBLISH));
        drops.add(row(ORDERS, Row.Event.ACK));
        assertEquals(3, drops.count());
        List<Drops.Gap> gaps = drops.takeGaps();
        assertEquals(2, gaps.size());
        JsonNode gap = json(gaps.stream().filter(found -> found.group.equals(ORDERS)).findFirst().orElseThrow());
        assertEquals("gap", gap.get("event").asText());
        assertEquals(1, gap.get("seq").asLong());
        assertEquals(3, gap.get("seq_end").asLong());
        assertEquals(2, gap.get("dropped").asLong());
        assertEquals("[\"dispatch\",\"ack\"]", gap.get("dropped_events").toString());
        assertEquals("billing", gap.get("subscription").asText());
        assertTrue(gaps.stream().noneMatch(Drops.Gap::needsSnapshot));
        assertTrue(drops.isEmpty());
    }

    @Test
    void aGapThatLostSettingsLetsThemBeWrittenAgain() throws Exception {
        Drops drops = new Drops();
        drops.add(row(ORDERS, Row.Event.SETTINGS));
        Drops.Gap gap = drops.takeGaps().get(0);
        assertEquals("[\"settings\"]", json(gap).get("dropped_events").toString());
        assertTrue(gap.needsSnapshot());
    }

    @Test
    void aGapThatIsLostItselfKeepsWhatItNamed() throws Exception {
        Drops drops = new Drops();
        drops.add(row(ORDERS, Row.Event.DISPATCH));
        Row gap = drops.takeGaps().get(0);
        drops.add(row(ORDERS, Row.Event.DISPATCH));
        Drops unflushed = new Drops();
        unflushed.add(gap);
        drops.addAll(unflushed);
        JsonNode both = json(drops.takeGaps().get(0));
        assertEquals(2, both.get("dropped").asLong());
        assertEquals(1, both.get("seq").asLong());
        assertEquals(2, both.get("seq_end").asLong());
        assertEquals(2, drops.count());
    }

    @Test
    void tooManyGroupsAreOneGapForEverything() throws Exception {
        Drops drops = new Drops();
        for (int i = 0; i < Drops.GROUPS_MAX + 5; i++) {
            drops.add(row(Group.of("persistent://public/default/t" + i, null), Row.Event.PUBLISH));
        }
        List<Drops.Gap> gaps = drops.takeGaps();
        assertEquals(Drops.GROUPS_MAX + 1, gaps.size());
        JsonNode everything = json(
                gaps.stream().filter(gap -> gap.group.equals(Group.EVERYTHING)).findFirst().orElseThrow());
        assertNull(everything.get("topic"));
        assertEquals(5, everything.get("dropped").asLong());
    }

    @Test
    void theLastPlacesAreForMembersAndSnapshots() {
        Drops drops = new Drops();
        RowQueue queue = new RowQueue(1024, 24, drops);
        for (int i = 0; i < 1100; i++) {
            queue.put(row(ORDERS, Row.Event.DISPATCH));
        }
        assertEquals(100, drops.count());
        for (int i = 0; i < 24; i++) {
            queue.put(row(ORDERS, Row.Event.JOIN));
        }
        assertEquals(100, drops.count());
        queue.put(row(ORDERS, Row.Event.STATS));
        assertEquals(101, drops.count());
    }
}
