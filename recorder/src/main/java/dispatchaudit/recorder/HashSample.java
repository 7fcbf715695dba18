package dispatchaudit.recorder;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import org.apache.pulsar.common.util.Murmur3_32Hash;

/**
 * The sticky hashes whose rows are recorded: one in so many, chosen by a salt (TRACE_FORMAT, "A sample of the hashes"). The
 * audit chooses the same ones ({@code udfs/hash_sample.py}).
 */
final class HashSample {
    private final long oneIn;
    private final long salted;
    private final int ringTo;

    /**
     * Returns the sample of one in {@code oneIn} hashes.
     *
     * @param ringTo last hash of the ring of this broker's dispatchers (contract 1.3); of no account where brokers route by
     *     the whole hash
     */
    HashSample(int oneIn, String salt, int ringTo) {
        this.oneIn = oneIn;
        this.ringTo = ringTo;
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(salt.getBytes(StandardCharsets.UTF_8));
            salted = ByteBuffer.wrap(digest).order(ByteOrder.LITTLE_ENDIAN).getLong();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JVM has SHA-256", e);
        }
    }

    boolean isAll() {
        return oneIn == 1;
    }

    /** Whether a hash belongs to the sample. */
    boolean has(int hash) {
        long mixed = hash + salted;
        mixed = (mixed ^ mixed >>> 30) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94D049BB133111EBL;
        mixed ^= mixed >>> 31;
        return (mixed >>> 32) * oneIn < 1L << 32;
    }

    /** Whether the hash of a key belongs to the sample under any selector: a publish is of all subscriptions. */
    boolean hasAny(byte[] key) {
        if (isAll()) {
            return true;
        }
        int murmur = Murmur3_32Hash.getInstance().makeHash(key);
        return BrokerFeatures.ROUTES_BY_WHOLE_HASH ? has(murmur)
                : has(folded(murmur, 1, ringTo)) || has(folded(murmur, 0, 65_535));
    }

    /** The hash of a selector with the hashes between these, inclusive; zero stands for no hash. */
    static int folded(int murmur, int from, int to) {
        int hash = murmur % (to - from + 1) + from;
        return hash == 0 ? 1 : hash;
    }
}
