package dispatchaudit.recorder;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Rows as text, in a buffer that is used again. Most of a row is bytes that were written once for all its like
 * ({@link #raw}), so a row costs a few copies and no garbage.
 */
final class JsonLine {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] BASE64 =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".getBytes(StandardCharsets.US_ASCII);
    /** The two digits of each number below 100: half of the divisions that one digit at a time takes. */
    private static final byte[] PAIRS = new byte[200];

    static {
        for (int i = 0; i < 100; i++) {
            PAIRS[2 * i] = (byte) ('0' + i / 10);
            PAIRS[2 * i + 1] = (byte) ('0' + i % 10);
        }
    }

    private byte[] bytes = new byte[1024];
    private int size;

    /** Returns the UTF-8 bytes of JSON text, for {@link #raw}. */
    static byte[] bytesOf(String json) {
        return json.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns a name and its value as a member of an object, without a comma. */
    static String member(String name, String value) {
        JsonLine line = new JsonLine();
        line.text(name).raw(':').text(value);
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
        int digits = digits(rest);
        int at = size + digits;
        size = at;
        while (rest >= 100) {
            long hundreds = rest / 100;
            int pair = 2 * (int) (rest - 100 * hundreds);
            bytes[--at] = PAIRS[pair + 1];
            bytes[--at] = PAIRS[pair];
            rest = hundreds;
        }
        bytes[--at] = PAIRS[2 * (int) rest + 1];
        if (rest >= 10) {
            bytes[--at] = PAIRS[2 * (int) rest];
        }
        return this;
    }

    private static int digits(long value) {
        int digits = 1;
        for (long limit = 10; digits < 19 && value >= limit; limit *= 10) {
            digits++;
        }
        return digits;
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
        reserve(value.length / 3 * 4 + 6);
        bytes[size++] = '"';
        int at = 0;
        for (; at + 2 < value.length; at += 3) {
            fourOf((value[at] & 255) << 16 | (value[at + 1] & 255) << 8 | value[at + 2] & 255);
        }
        int rest = value.length - at;
        if (rest > 0) {
            fourOf((value[at] & 255) << 16 | (rest == 2 ? (value[at + 1] & 255) << 8 : 0));
            bytes[size - 1] = '=';
            if (rest == 1) {
                bytes[size - 2] = '=';
            }
        }
        bytes[size++] = '"';
        return this;
    }

    private void fourOf(int threeBytes) {
        bytes[size++] = BASE64[threeBytes >> 18];
        bytes[size++] = BASE64[threeBytes >> 12 & 63];
        bytes[size++] = BASE64[threeBytes >> 6 & 63];
        bytes[size++] = BASE64[threeBytes & 63];
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
