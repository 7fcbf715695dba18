package dispatchaudit.recorder;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import java.util.zip.GZIPInputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TraceFileTest {
    @TempDir
    private Path directory;

    /** Text of some blocks, one of them larger than what the compressor gives out at once. */
    private static byte[] text(int seed, int bytes) {
        byte[] text = new byte[bytes];
        new Random(seed).nextBytes(text);
        return text;
    }

    @Test
    void whatWasWrittenIsInTheFileBeforeItIsComplete() throws Exception {
        Path complete = directory.resolve("1.jsonl.gz");
        TraceFile file = new TraceFile(complete, 1);
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        for (int block = 0; block < 4; block++) {
            byte[] rows = text(block, block == 2 ? 1 << 18 : TraceFile.BLOCK);
            file.write(new JsonLine().raw(rows));
            all.write(rows);

            ByteArrayOutputStream read = new ByteArrayOutputStream();
            try (InputStream in = new GZIPInputStream(
                    Files.newInputStream(directory.resolve("1.jsonl.gz" + TraceFile.OPEN)))) {
                assertThrows(EOFException.class, () -> drain(in, read));
            }
            assertArrayEquals(all.toByteArray(), read.toByteArray());
        }
        file.complete();
        assertEquals(Files.size(complete), file.bytes());
        try (InputStream in = new GZIPInputStream(Files.newInputStream(complete))) {
            assertArrayEquals(all.toByteArray(), in.readAllBytes());
        }
    }

    private static void drain(InputStream in, ByteArrayOutputStream into) throws IOException {
        for (int read = in.read(); read >= 0; read = in.read()) {
            into.write(read);
        }
    }
}
