package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TraceFolderTest {
    @TempDir
    private Path directory;

    private TraceFolder folder(String name, long bytesMax) throws Settings.WrongSetting {
        return new TraceFolder(directory, name, bytesMax,
                new Manifest("4.2.4", new ServiceConfiguration(), name, "1", Settings.of(new Properties())));
    }

    private static void filled(Path path, int bytes, long modified) throws Exception {
        Files.write(path, new byte[bytes]);
        Files.setLastModifiedTime(path, FileTime.fromMillis(modified));
    }

    private boolean isComplete(String name) throws Exception {
        Path manifest = directory.resolve(name).resolve("trace.json");
        return new ObjectMapper().readTree(manifest.toFile()).get("complete_from_start").booleanValue();
    }

    @Test
    void theOldestFilesMakeRoomThoseOfFormerRecordersFirst() throws Exception {
        TraceFolder former = folder("former", 1_000);
        filled(former.nextFile(), 400, 1_000);
        TraceFolder current = folder("current", 1_000);
        filled(current.nextFile(), 400, 2_000);
        assertEquals(0, current.makeRoom(200));
        assertTrue(isComplete("current"));

        assertEquals(1, current.makeRoom(300));
        // A folder without logs is no trace, and an audit of the directory would stumble over it.
        assertFalse(Files.exists(directory.resolve("former")));
        assertTrue(isComplete("current"));

        filled(current.nextFile(), 400, 3_000);
        assertEquals(1, current.makeRoom(400));
        assertFalse(Files.exists(directory.resolve("current/events/000001.jsonl.gz")));
        assertTrue(Files.exists(directory.resolve("current/events/000002.jsonl.gz")));
        assertFalse(isComplete("current"));
    }

    @Test
    void theManifestHasSettingsOfTheDispatcherAndNoSecrets() throws Exception {
        folder("current", 1_000).nextFile();
        String manifest = Files.readString(directory.resolve("current/trace.json"));
        assertTrue(manifest.contains("\"maxUnackedMessagesPerConsumer\" : 50000"), manifest);
        assertFalse(manifest.contains("Password"), manifest);
        assertFalse(manifest.contains("brokerClient"), manifest);
    }

    @Test
    void theManifestNamesTheKindsOfRowsThatTheRecorderWrites() throws Exception {
        folder("current", 1_000).nextFile();
        List<String> events = new ArrayList<>();
        new ObjectMapper().readTree(directory.resolve("current/trace.json").toFile())
                .at("/recorder/events").forEach(event -> events.add(event.textValue()));
        // Permits are in the snapshots, so no row is a flow; a gap says that rows were lost, not that something happened.
        assertEquals(List.of("publish", "dispatch", "ack", "redeliver", "join", "leave", "reset", "stats", "settings",
                "hang", "heartbeat", "end"),
                events);
    }
}
