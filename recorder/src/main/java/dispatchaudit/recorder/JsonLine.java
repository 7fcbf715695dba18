package dispatchaudit.recorder;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

/**
 * A row as text, in a buffer that is used again. Most of a row is bytes that were written once for all its like
 * ({@link #raw}), so a row costs a few copies and no garbage.
 */
final class JsonLine {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);

    private byte[] bytes = new byte[1024];
    private int size;

    /** Returns the UTF-8 bytes of JSON text, for {@link #raw}. */
    static byte[] bytesOf(String json) {
        return json.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns a name and its value as a member of an object, without a comma. */
    static String member(String name, String value) {
        JsonLine line = new JsonLine();
        line.raw(bytesOf("\"" + name + "\":"));
        line.text(value);
        return line.toString();
    }

    void clear() {
        size = 0;
    }

    int size() {
        return size;
    }

    JsonLine raw(byte[] json) {
        reserve(json.length);
        System.arraycopy(json, 0, bytes, size, json.length);
        size += json.length;
        return this;
    }

    JsonLine raw(char c) {
        reserve(1);
        bytes[size++] = (byte) c;
        return this;
    }

    JsonLine number(long value) {
        if (value == Long.MIN_VALUE) {
            return raw(bytesOf(Long.toString(value)));
        }
        reserve(20);
        long rest = value;
        if (rest < 0) {
            bytes[size++] = '-';
            rest = -rest;
        }
        int from = size;
        do {
            bytes[size++] = (byte) ('0' + rest % 10);
            rest /= 10;
        } while (rest != 0);
        for (int i = from, j = size - 1; i < j; i++, j--) {
            byte swapped = bytes[i];
            bytes[i] = bytes[j];
            bytes[j] = swapped;
        }
        return this;
    }

    /** Writes a string with its quotes, or null. */
    JsonLine text(String value) {
        if (value == null) {
            return raw(bytesOf("null"));
        }
        raw('"');
        for (byte b : value.getBytes(StandardCharsets.UTF_8)) {
            if (b == '"' || b == '\\') {
                raw('\\').raw((char) b);
            } else if (b >= 0 && b < 0x20) {
                raw(bytesOf("\\u00")).raw((char) HEX[b >> 4]).raw((char) HEX[b & 15]);
            } else {
                reserve(1);
                bytes[size++] = b;
            }
        }
        return raw('"');
    }

    JsonLine base64(byte[] value) {
        return raw('"').raw(Base64.getEncoder().encode(value)).raw('"');
    }

    JsonLine longs(long[] values) {
        raw('[');
        for (int i = 0; i < values.length; i++) {
            if (i > 0) {
                raw(',');
            }
            number(values[i]);
        }
        return raw(']');
    }

    void writeTo(OutputStream out) throws IOException {
        out.write(bytes, 0, size);
    }

    private void reserve(int more) {
        if (size + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(bytes.length * 2, size + more));
        }
    }

    @Override
    public String toString() {
        return new String(bytes, 0, size, StandardCharsets.UTF_8);
    }
}
