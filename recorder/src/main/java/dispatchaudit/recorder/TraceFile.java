package dispatchaudit.recorder;

import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.zip.Deflater;
import java.util.zip.GZIPOutputStream;

/**
 * One file of a log while it is written. Its name ends in {@code .open} until it is whole; what was flushed can be read
 * in any case.
 */
final class TraceFile {
    static final String ENDING = ".jsonl.gz";
    static final String OPEN = ".open";
    /**
     * Bytes of text that are compressed at a time, each block without a look at the one before. zlib keeps 64 KB of text; beyond
     * that it shifts text and index by 32 KB again and again, which takes a third of the time of level 1. At the end of a block
     * it begins anew instead, and the file grows by a few percent.
     */
    static final int BLOCK = 60_000;

    private final Path complete;
    private final Path open;
    private final Counted counted;
    private final Gzip lines;
    private final long openedNs = System.nanoTime();

    TraceFile(Path complete, int compression) throws IOException {
        this.complete = complete;
        this.open = complete.resolveSibling(complete.getFileName() + OPEN);
        counted = new Counted(Files.newOutputStream(open, StandardOpenOption.CREATE, StandardOpenOption.WRITE));
        lines = new Gzip(counted, compression);
    }

    /** Writes complete rows, best about {@link #BLOCK} bytes; afterwards a kill of this process does not lose them. */
    void write(JsonLine rows) throws IOException {
        rows.writeTo(lines);
        lines.endBlock();
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
            super(out, 1 << 16);
            def.setLevel(level);
        }

        void endBlock() throws IOException {
            int length;
            do {
                length = def.deflate(buf, 0, buf.length, Deflater.FULL_FLUSH);
                out.write(buf, 0, length);
            } while (length == buf.length);
            out.flush();
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
