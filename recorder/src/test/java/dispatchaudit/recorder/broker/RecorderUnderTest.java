package dispatchaudit.recorder.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;

/** Brokers with the recorder's NAR, and the rows that it has written. */
final class RecorderUnderTest {
    private final Path directory;

    /**
     * Returns a recorder that writes often.
     *
     * @param directory where it makes the folders of traces
     */
    RecorderUnderTest(Path directory) {
        this.directory = directory;
    }

    /** Starts a broker with the recorder; {@code more} are names and values of {@code broker.conf}. */
    EmbeddedBroker broker(String... more) throws Exception {
        assertThrows(ClassNotFoundException.class, () -> Class.forName("dispatchaudit.recorder.DispatchRecorder"),
                "the recorder is on the class path, so the broker would not take it from its NAR");
        Map<String, String> settings = new HashMap<>(Map.of(
                "dispatchAuditRecorderDirectory", directory.toString(),
                "dispatchAuditRecorderSnapshotMs", "100",
                "dispatchAuditRecorderFlushMs", "50"));
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        return EmbeddedBroker.start(Path.of(System.getProperty("recorder.nar")).toAbsolutePath(), settings);
    }

    /** The rows on disk so far, in the order of their numbers. */
    List<JsonNode> rows() throws IOException {
        TreeMap<Long, JsonNode> rows = new TreeMap<>();
        List<Path> files;
        try (Stream<Path> found = Files.walk(directory)) {
            files = found.filter(path -> path.toString().contains(".jsonl.gz")).toList();
        }
        for (Path file : files) {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(
                    new GZIPInputStream(Files.newInputStream(file)), StandardCharsets.UTF_8))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    JsonNode row = new ObjectMapper().readTree(line);
                    assertEquals(null, rows.put(row.get("seq").asLong(), row), "two rows have one number");
                }
            } catch (EOFException e) {
                // The file is still written to; what it has so far was read.
            }
        }
        return new ArrayList<>(rows.values());
    }

    List<JsonNode> rows(String event) throws IOException {
        return rows().stream().filter(row -> row.get("event").asText().equals(event)).toList();
    }
}
