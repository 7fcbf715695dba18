package dispatchaudit.recorder.broker;

import com.fasterxml.jackson.databind.ObjectWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.pulsar.client.admin.GetStatsOptions;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.common.util.ObjectMapperFactory;

/**
 * What {@code pulsar-admin topics} prints: the answers of the admin client, through the mapper and the printer that the tool
 * uses ({@code CliCommand.print} of Pulsar). Fields have another order than in the answers of the REST API, and more of them.
 */
final class PrintedStatistics {
    private static final ObjectWriter PRINTER = ObjectMapperFactory.create().writerWithDefaultPrettyPrinter();

    private final Topics topics;

    PrintedStatistics(PulsarAdmin admin) {
        this.topics = admin.topics();
    }

    /**
     * Writes what a command prints to a file.
     *
     * @param command {@code stats}, with the precise backlog and the size of each subscription's backlog, or
     *     {@code stats-internal}
     */
    void write(String command, String topic, Path file) throws Exception {
        Object printed = switch (command) {
            case "stats" -> topics.getStats(topic, GetStatsOptions.builder()
                    .getPreciseBacklog(true).subscriptionBacklogSize(true).build());
            case "stats-internal" -> topics.getInternalStats(topic, false);
            default -> throw new IllegalArgumentException(command + " is neither stats nor stats-internal");
        };
        Files.writeString(file, PRINTER.writeValueAsString(printed) + "\n");
    }
}
