package dispatchaudit.recorder;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.protocol.Commands;
import org.apache.pulsar.common.util.Murmur3_32Hash;

/** Writes the key columns of a row: the sticky key as it is, or a keyed digest of it with its hash. One thread uses it. */
final class Keys {
    /** Where the broker found the sticky key (contract 1.1). */
    enum Source {
        ORDERING_KEY, PARTITION_KEY, NONE
    }

    record Key(byte[] bytes, Source source) {
        /** The sticky key of an entry, as the broker resolves it. */
        static Key of(MessageMetadata metadata) {
            Source source = metadata.hasOrderingKey() ? Source.ORDERING_KEY
                    : metadata.hasPartitionKey() ? Source.PARTITION_KEY : Source.NONE;
            return new Key(Commands.resolveStickyKey(metadata), source);
        }
    }

    /** Enough that two keys never share a digest, and half of what a whole one takes on disk. */
    private static final int DIGEST_BYTES = 16;
    private static final byte[] KEY = JsonLine.bytesOf(",\"key_b64\":");
    private static final byte[] HASH = JsonLine.bytesOf(",\"sticky_hash\":");
    private static final byte[][] SOURCES = {
        JsonLine.bytesOf(",\"key_source\":\"ordering_key\""),
        JsonLine.bytesOf(",\"key_source\":\"partition_key\""),
        JsonLine.bytesOf(",\"key_source\":\"none\""),
    };

    private final Mac digest;
    private final int hashesFrom;
    private final int hashesTo;

    private Keys(Mac digest, int hashesFrom, int hashesTo) {
        this.digest = digest;
        this.hashesFrom = hashesFrom;
        this.hashesTo = hashesTo;
    }

    static Keys plain() {
        return new Keys(null, 0, 0);
    }

    /**
     * Returns the writer of digests.
     *
     * @param secret file with the secret; its bytes are the key of HMAC-SHA256, without white space at the end
     * @param hashesFrom first hash of the selector for AUTO_SPLIT subscriptions, and so on (contract 1.3)
     */
    static Keys digests(Path secret, int hashesFrom, int hashesTo) throws IOException, GeneralSecurityException {
        byte[] bytes = Files.readString(secret).stripTrailing().getBytes(java.nio.charset.StandardCharsets.UTF_8);
        if (bytes.length < 16) {
            throw new IOException(secret + " has a secret of " + bytes.length + " bytes; use at least 16");
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(bytes, "HmacSHA256"));
        return new Keys(mac, hashesFrom, hashesTo);
    }

    /**
     * Writes the columns of a key.
     *
     * @param subscription whose selector computes the hash; null for a publish
     */
    void write(JsonLine line, Key key, RecordedSubscription subscription) {
        if (digest == null) {
            line.raw(KEY).base64(key.bytes()).raw(SOURCES[key.source().ordinal()]);
            return;
        }
        // A keyless message has a name and a number of its producer in place of a key: nothing to hide, nothing to say.
        if (key.source() != Source.NONE) {
            line.raw(KEY).base64(Arrays.copyOf(digest.doFinal(key.bytes()), DIGEST_BYTES));
        }
        line.raw(SOURCES[key.source().ordinal()]);
        int hash = subscription == null ? hashOf(key.bytes()) : subscription.hashOf(key.bytes());
        if (hash >= 0) {
            line.raw(HASH).number(hash);
        }
    }

    private int hashOf(byte[] key) {
        int hash = Murmur3_32Hash.getInstance().makeHash(key) % (hashesTo - hashesFrom + 1) + hashesFrom;
        return hash == 0 ? 1 : hash;
    }
}
