package dispatchaudit.recorder;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.util.Murmur3_32Hash;

/**
 * Writes the key columns of a row: the sticky key as it is, or a keyed digest of it with its hash. One thread uses it.
 *
 * <p>Digests of one period have one secret, which is derived from the secret of the recorder and the period by the step
 * {@code expand} of HKDF (RFC 5869), of which one block is enough. Whoever does not have the recorder's secret cannot tell
 * that digests of two periods are of one key. The period of a message is that of its publish time, which is part of the
 * message: its publish and each of its dispatches have the same digest, on every broker with the secret.
 */
final class Keys {
    /** Where the broker found the sticky key (contract 1.1). */
    enum Source {
        ORDERING_KEY, PARTITION_KEY, NONE
    }

    record Key(byte[] bytes, Source source, long publishTimeMs) {
        /** The sticky key of an entry, as the broker resolves it. */
        static Key of(MessageMetadata metadata) {
            Source source = metadata.hasOrderingKey() ? Source.ORDERING_KEY
                    : metadata.hasPartitionKey() ? Source.PARTITION_KEY : Source.NONE;
            return new Key(BrokerFeatures.stickyKey(metadata), source, metadata.getPublishTime());
        }
    }

    /** Enough that two keys never share a digest, and half of what a whole one takes on disk. */
    private static final int DIGEST_BYTES = 16;
    private static final byte[] KEY = JsonLine.bytesOf(",\"key_b64\":");
    private static final byte[] BATCH_KEYS = JsonLine.bytesOf(",\"batch_keys\":[");
    private static final byte[] HASH = JsonLine.bytesOf(",\"sticky_hash\":");
    private static final byte[][] SOURCES = {
        JsonLine.bytesOf(",\"key_source\":\"ordering_key\""),
        JsonLine.bytesOf(",\"key_source\":\"partition_key\""),
        JsonLine.bytesOf(",\"key_source\":\"none\""),
    };

    private static final int SECRET_BYTES_MIN = 16;
    private static final String HMAC = "HmacSHA256";
    /** Of how many periods secrets are kept: a consumer that is far behind reads one after the other. */
    private static final int PERIODS = 16;

    /** Derives the secrets of periods; null: keys are written as they are. */
    private final Mac secret;
    private final long periodMs;
    private final Map<Long, Mac> digests = new LinkedHashMap<>(PERIODS, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, Mac> eldest) {
            return size() > PERIODS;
        }
    };
    private final int hashesFrom;
    private final int hashesTo;

    private Keys(Mac secret, long periodMs, int hashesFrom, int hashesTo) {
        this.secret = secret;
        this.periodMs = periodMs;
        this.hashesFrom = hashesFrom;
        this.hashesTo = hashesTo;
    }

    static Keys plain() {
        return new Keys(null, 0, 0, 0);
    }

    /**
     * Returns the writer of digests.
     *
     * @param file has the secret, without white space at its end; null: a random one, which is written nowhere
     * @param periodHours how long digests have one secret; 0: always
     * @param hashesFrom first hash of the selector for AUTO_SPLIT subscriptions, and so on (contract 1.3); of no account
     *     where brokers route by the whole hash
     */
    static Keys digests(Path file, int periodHours, int hashesFrom, int hashesTo)
            throws IOException, GeneralSecurityException {
        byte[] bytes = new byte[32];
        if (file == null) {
            new SecureRandom().nextBytes(bytes);
        } else {
            bytes = Files.readString(file).stripTrailing().getBytes(StandardCharsets.UTF_8);
            if (bytes.length < SECRET_BYTES_MIN) {
                throw new IOException(
                        file + " has a secret of " + bytes.length + " bytes; use at least " + SECRET_BYTES_MIN);
            }
        }
        return new Keys(mac(bytes), TimeUnit.HOURS.toMillis(periodHours), hashesFrom, hashesTo);
    }

    private static Mac mac(byte[] secret) throws GeneralSecurityException {
        Mac mac = Mac.getInstance(HMAC);
        mac.init(new SecretKeySpec(secret, HMAC));
        return mac;
    }

    private byte[] digest(byte[] key, long publishTimeMs) {
        Mac mac = periodMs == 0 ? secret
                : digests.computeIfAbsent(Math.floorDiv(publishTimeMs, periodMs), this::ofPeriod);
        return Arrays.copyOf(mac.doFinal(key), DIGEST_BYTES);
    }

    private Mac ofPeriod(long period) {
        try {
            secret.update("dispatch-audit-recorder key digest".getBytes(StandardCharsets.US_ASCII));
            secret.update(ByteBuffer.allocate(2 * Long.BYTES).putLong(periodMs).putLong(period).array());
            return mac(secret.doFinal(new byte[] {1}));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("this JVM made an HMAC before, and now it does not", e);
        }
    }

    /**
     * Writes the columns of a key.
     *
     * @param subscription whose selector computes the hash; null for a publish
     */
    void write(JsonLine line, Key key, RecordedSubscription subscription) {
        if (secret == null) {
            line.raw(KEY).base64(key.bytes()).raw(SOURCES[key.source().ordinal()]);
            return;
        }
        // A keyless message has a name and a number of its producer in place of a key: nothing to hide, nothing to say.
        if (key.source() != Source.NONE) {
            line.raw(KEY).base64(digest(key.bytes(), key.publishTimeMs()));
        }
        line.raw(SOURCES[key.source().ordinal()]);
        int hash = subscription == null ? hashOf(key.bytes()) : subscription.hashOf(key.bytes());
        if (hash >= 0) {
            line.raw(HASH).number(hash);
        }
    }

    /** Writes the keys of the messages of a batch, or their digests; null for a message without one. */
    void writeBatch(JsonLine line, String[] keys, long publishTimeMs) {
        line.raw(BATCH_KEYS);
        for (int at = 0; at < keys.length; at++) {
            if (at > 0) {
                line.raw(',');
            }
            if (secret == null || keys[at] == null) {
                line.text(keys[at]);
            } else {
                line.base64(digest(keys[at].getBytes(StandardCharsets.UTF_8), publishTimeMs));
            }
        }
        line.raw(']');
    }

    private int hashOf(byte[] key) {
        int murmur = Murmur3_32Hash.getInstance().makeHash(key);
        if (BrokerFeatures.ROUTES_BY_WHOLE_HASH) {
            return murmur;
        }
        return HashSample.folded(murmur, hashesFrom, hashesTo);
    }
}
