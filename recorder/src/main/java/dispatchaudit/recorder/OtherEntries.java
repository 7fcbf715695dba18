package dispatchaudit.recorder;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentMap;

/**
 * The entries of a subscription that were dispatched and whose hashes are not of the sample. Acknowledgements name positions
 * only. It forgets the oldest, whose rows are then written: an audit does not use rows of other hashes.
 */
final class OtherEntries {
    /** An entry takes a bit, of one of so many blocks of 4,096: 8 KB for a subscription at most. */
    private static final int BLOCKS_MAX = 16;
    private static final int BLOCK_BITS = 12;
    private static final int WORD_BITS = 6;
    private static final VarHandle WORDS = MethodHandles.arrayElementVarHandle(long[].class);

    private final ConcurrentMap<Block, long[]> blocks = new ConcurrentHashMap<>();
    private final Queue<Block> order = new ConcurrentLinkedQueue<>();

    private record Block(long ledgerId, long number) {
        static Block of(long ledgerId, long entryId) {
            return new Block(ledgerId, entryId >>> BLOCK_BITS);
        }
    }

    private static int word(long entryId) {
        return (int) (entryId >>> WORD_BITS) & (1 << BLOCK_BITS - WORD_BITS) - 1;
    }

    void add(long ledgerId, long entryId) {
        Block block = Block.of(ledgerId, entryId);
        long[] words = blocks.get(block);
        if (words == null) {
            words = blocks.computeIfAbsent(block, any -> new long[1 << BLOCK_BITS - WORD_BITS]);
            order.add(block);
            while (order.size() > BLOCKS_MAX) {
                blocks.remove(order.poll());
            }
        }
        WORDS.getAndBitwiseOr(words, word(entryId), 1L << entryId);
    }

    /** An entry is of the sample after all: the subscription may have another selector than when it was dispatched. */
    void remove(long ledgerId, long entryId) {
        long[] words = blocks.get(Block.of(ledgerId, entryId));
        if (words != null) {
            WORDS.getAndBitwiseAnd(words, word(entryId), ~(1L << entryId));
        }
    }

    boolean has(long ledgerId, long entryId) {
        long[] words = blocks.get(Block.of(ledgerId, entryId));
        return words != null && ((long) WORDS.getVolatile(words, word(entryId)) & 1L << entryId) != 0;
    }
}
