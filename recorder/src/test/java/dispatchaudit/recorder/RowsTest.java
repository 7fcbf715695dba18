package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.junit.jupiter.api.Test;

class RowsTest {
    private static JsonNode published(Rows.Transaction transaction) throws Exception {
        MessageMetadata metadata = new MessageMetadata().setProducerName("p").setSequenceId(0).setPublishTime(1);
        Rows.Message message = new Rows.Message(
                Group.of("topic", null), Keys.Key.of(metadata), 1, null, "p", 0, 0, transaction);
        JsonLine line = new JsonLine();
        new Rows.Publish(new Moment(1, 2), 3, 4, 5, message).write(line, new byte[0], Keys.plain());
        return new ObjectMapper().readTree(line.toString());
    }

    @Test
    void aPublishHasTheIdOfItsTransactionAsTheBrokerWritesIt() throws Exception {
        assertEquals("(2,17)", published(new Rows.Transaction(2, 17)).get("transaction").asText());
        assertFalse(published(null).has("transaction"));
    }
}
