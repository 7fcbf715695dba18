package dispatchaudit.recorder;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * The folder of one recorder, a trace by itself: {@code trace.json}, and the log {@code events/} with its files. The folder
 * of all recorders holds one for each start of the broker; the oldest files in it make room for new ones.
 */
final class TraceFolder {
    private final Path directory;
    private final Path folder;
    private final Path log;
    private final long bytesMax;
    private final Manifest manifest;
    private int files;
    private boolean manifestIsDue = true;

    /**
     * Prepares the folder; nothing is on disk before {@link #nextFile}.
     *
     * @param recorder name of this recorder, which no other one has
     */
    TraceFolder(Path directory, String recorder, long bytesMax, Manifest manifest) {
        this.directory = directory;
        this.folder = directory.resolve(recorder);
        this.log = folder.resolve("events");
        this.bytesMax = bytesMax;
        this.manifest = manifest;
    }

    /** Returns the path of the next file, complete; the folder exists afterwards. */
    Path nextFile() throws IOException {
        Files.createDirectories(log);
        if (manifestIsDue) {
            writeManifest();
        }
        files++;
        return log.resolve("%06d%s".formatted(files, TraceFile.ENDING));
    }

    /**
     * Deletes the oldest files until there is room; call it while no file is open.
     *
     * @param expected bytes that will be written before the next call
     * @return number of deleted files
     */
    int makeRoom(long expected) throws IOException {
        List<Found> found = files();
        long total = expected + found.stream().mapToLong(Found::bytes).sum();
        int deleted = 0;
        for (Found file : found) {
            if (total <= bytesMax) {
                break;
            }
            // Said before it is true: a kill in between must not leave a trace that claims to be complete.
            if (file.path().startsWith(folder) && manifest.loseTheStart()) {
                writeManifest();
            }
            Files.deleteIfExists(file.path());
            if (!file.path().startsWith(folder)) {
                deleteIfEmpty(file.path().getParent().getParent());
            }
            total -= file.bytes();
            deleted++;
        }
        return deleted;
    }

    /** Deletes the folder of a former recorder without a file left: it is no trace any more. */
    private static void deleteIfEmpty(Path recorder) throws IOException {
        try (Stream<Path> left = Files.list(recorder.resolve("events"))) {
            if (left.findAny().isPresent()) {
                return;
            }
        }
        Files.deleteIfExists(recorder.resolve("events"));
        Files.deleteIfExists(recorder.resolve("trace.json"));
        Files.deleteIfExists(recorder);
    }

    private record Found(Path path, long bytes, long modified) {
    }

    private List<Found> files() throws IOException {
        List<Found> found = new ArrayList<>();
        Files.walkFileTree(directory, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
                if (file.getFileName().toString().contains(TraceFile.ENDING)) {
                    found.add(new Found(file, attributes.size(), attributes.lastModifiedTime().toMillis()));
                }
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path file, IOException e) {
                return FileVisitResult.CONTINUE;
            }
        });
        found.sort(Comparator.comparingLong(Found::modified).thenComparing(Found::path));
        return found;
    }

    private void writeManifest() throws IOException {
        Path unfinished = folder.resolve("_trace.json");
        Files.write(unfinished, manifest.json().getBytes(StandardCharsets.UTF_8));
        Files.move(unfinished, folder.resolve("trace.json"), StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
        manifestIsDue = false;
    }
}
