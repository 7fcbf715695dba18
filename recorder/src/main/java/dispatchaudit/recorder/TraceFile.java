package dispatchaudit.recorder;

import java.io.BufferedOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.zip.GZIPOutputStream;

/**
 * One file of a log while it is written. Its name ends in {@code .open} until it is whole; what was flushed can be read
 * in any case.
 */
final class TraceFile {
    static final String ENDING = ".jsonl.gz";
    static final String OPEN = ".open";

    private final Path complete;
    private final Path open;
    private final Counted counted;
    private final OutputStream lines;
    private final long openedNs = System.nanoTime();

    TraceFile(Path complete, int compression) throws IOException {
        this.complete = complete;
        this.open = complete.resolveSibling(complete.getFileName() + OPEN);
        counted = new Counted(Files.newOutputStream(open, StandardOpenOption.CREATE, StandardOpenOption.WRITE));
        lines = new BufferedOutputStream(new Gzip(counted, compression), 1 << 16);
    }

    void write(JsonLine line) throws IOException {
        line.writeTo(lines);
    }

    /** Afterwards everything written so far is in the file, whatever happens to this process. */
    void flush() throws IOException {
        lines.flush();
    }

    /** Ends the file and gives it the name of a complete one. */
    void complete() throws IOException {
        lines.close();
        Files.move(open, complete, StandardCopyOption.ATOMIC_MOVE);
    }

    /** Gives up a file that cannot be written to; what reached the disk stays there under the open name. */
    void abandon() {
        try {
            counted.close();
        } catch (IOException e) {
            // The first error was said already.
        }
    }

    /** Compressed bytes so far. */
    long bytes() {
        return counted.bytes;
    }

    long ageSeconds() {
        return (System.nanoTime() - openedNs) / 1_000_000_000L;
    }

    private static final class Gzip extends GZIPOutputStream {
        Gzip(OutputStream out, int level) throws IOException {
            super(out, 1 << 16, true);
            def.setLevel(level);
        }
    }

    private static final class Counted extends FilterOutputStream {
        private long bytes;

        Counted(OutputStream out) {
            super(out);
        }

        @Override
        public void write(int b) throws IOException {
            out.write(b);
            bytes++;
        }

        @Override
        public void write(byte[] b, int from, int length) throws IOException {
            out.write(b, from, length);
            bytes += length;
        }
    }
}
