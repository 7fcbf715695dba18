package dispatchaudit.recorder.broker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.service.plugin.EntryFilter;
import org.apache.pulsar.broker.service.plugin.FilterContext;

/** Entry filters for policies of namespaces, which concern each third message of a producer. */
final class EntryFilters {
    private static final long WAITS_MS = TimeUnit.SECONDS.toMillis(1);

    private EntryFilters() {
    }

    /** Makes a folder with the filters {@code rejects} and {@code reschedules}. */
    static void write(Path directory) throws IOException {
        Files.createDirectories(directory);
        PluginNar.ofEntryFilter(directory.resolve("rejects.nar"), "rejects", Rejects.class);
        PluginNar.ofEntryFilter(directory.resolve("reschedules.nar"), "reschedules", Reschedules.class);
    }

    private static boolean concerns(FilterContext context) {
        return context.getMsgMetadata().getSequenceId() % 3 == 0;
    }

    /** No consumer gets such a message. */
    public static final class Rejects implements EntryFilter {
        @Override
        public FilterResult filterEntry(Entry entry, FilterContext context) {
            return concerns(context) ? FilterResult.REJECT : FilterResult.ACCEPT;
        }

        @Override
        public void close() {
        }
    }

    /** A consumer gets such a message a second later. */
    public static final class Reschedules implements EntryFilter {
        @Override
        public FilterResult filterEntry(Entry entry, FilterContext context) {
            boolean waits = System.currentTimeMillis() - context.getMsgMetadata().getPublishTime() < WAITS_MS;
            return concerns(context) && waits ? FilterResult.RESCHEDULE : FilterResult.ACCEPT;
        }

        @Override
        public void close() {
        }
    }
}
