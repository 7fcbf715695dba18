package dispatchaudit.recorder.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;

/** Brokers with the recorder's NAR, and the rows that it has written. */
final class RecorderUnderTest {
    private static final long WAIT_NS = 60_000_000_000L;

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
            String text = text(file);
            for (String line : text.substring(0, text.lastIndexOf('\n') + 1).lines().toList()) {
                JsonNode row = new ObjectMapper().readTree(line);
                assertEquals(null, rows.put(row.get("seq").asLong(), row), "two rows have one number");
            }
        }
        return new ArrayList<>(rows.values());
    }

    /** What a file has so far, to the last byte: a reader of lines would keep back what it has read behind the last line. */
    private static String text(Path file) throws IOException {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        byte[] some = new byte[1 << 16];
        try (InputStream in = new GZIPInputStream(Files.newInputStream(file))) {
            for (int read = in.read(some); read >= 0; read = in.read(some)) {
                text.write(some, 0, read);
            }
        } catch (EOFException e) {
            // The file is still written to.
        }
        return text.toString(StandardCharsets.UTF_8);
    }

    /** Waits until something holds, long enough for a machine that has much else to do; fails if it never does. */
    static void await(String what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + WAIT_NS;
        boolean held = holds.call();
        while (!held && System.nanoTime() < end) {
            Thread.sleep(100);
            held = holds.call();
        }
        assertTrue(held, () -> "waited in vain for " + what);
    }

    /** How many commands of an event the broker has carried out. */
    long ended(String event) throws IOException {
        return rows(event).stream().filter(row -> row.get("phase").asText().equals("end")).count();
    }

    List<JsonNode> rows(String event) throws IOException {
        return rows().stream().filter(row -> row.get("event").asText().equals(event)).toList();
    }
}
