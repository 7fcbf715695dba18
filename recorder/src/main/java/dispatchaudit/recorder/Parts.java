package dispatchaudit.recorder;

import java.io.IOException;
import java.io.InputStream;
import java.security.GeneralSecurityException;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Properties;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.TopicName;

/**
 * The parts of a running recorder, put together.
 *
 * @param name of this recorder: the broker's address and the time of its start, so that no other one has it
 */
record Parts(String name, Counters counters, Traffic traffic, RedeliverRequests redelivers, Membership membership,
             Resets resets, Snapshots snapshots, Heartbeat heartbeat, Writer writer) {
    private static final DateTimeFormatter STARTED = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss.SSS'Z'");

    static Parts start(PulsarService pulsar, Settings settings) throws IOException, GeneralSecurityException {
        ServiceConfiguration configuration = pulsar.getConfiguration();
        String name = pulsar.getAdvertisedAddress().replaceAll("[^A-Za-z0-9.-]", "_") + "-"
                + STARTED.format(ZonedDateTime.now(ZoneOffset.UTC));
        Keys keys = settings.digests() ? digests(settings, configuration) : Keys.plain();
        Drops drops = new Drops();
        RowQueue queue = new RowQueue(settings.queueRows(), settings.reservedRows(), drops);
        Counters counters = new Counters(queue, drops);
        Recording recording = new Recording(settings, queue, drops);
        Consumers consumers = new Consumers(recording);
        Snapshots snapshots = new Snapshots(recording, consumers, counters, settings.snapshotMs());
        Resets resets = new Resets(recording, consumers, snapshots,
                new AdminRequests((topic, range) -> isInBundle(pulsar, topic, range)));
        Manifest manifest =
                new Manifest(pulsar.getBrokerVersion(), configuration, name, version(), settings);
        TraceFolder folder = new TraceFolder(settings.directory(), name, settings.diskBytes(), manifest);
        Writer writer = new Writer(queue, drops, counters, folder, settings, keys, name, snapshots::breakOff);
        pulsar.addPrometheusRawMetricsProvider(counters);
        pulsar.getBrokerService().addTopicEventListener(resets);
        writer.start();
        snapshots.start();
        Heartbeat heartbeat = new Heartbeat(recording, consumers, snapshots);
        heartbeat.start();
        Traffic traffic = new Traffic(recording, consumers,
                new HashSample(settings.sampleOneIn(), settings.sampleSalt(), ringTo(configuration)));
        return new Parts(name, counters, traffic, new RedeliverRequests(recording, traffic, counters),
                new Membership(recording, consumers, snapshots), resets, snapshots, heartbeat, writer);
    }

    private static Keys digests(Settings settings, ServiceConfiguration configuration)
            throws IOException, GeneralSecurityException {
        boolean ring = configuration.isSubscriptionKeySharedUseConsistentHashing();
        // Contract 1.3: the range of hashes of the selector for AUTO_SPLIT.
        return Keys.digests(settings.digestSecret(), settings.digestHours(), ring ? 1 : 0,
                ring ? ringTo(configuration) : 65_535);
    }

    private static int ringTo(ServiceConfiguration configuration) {
        return Boolean.TRUE.equals(BrokerFeatures.USES_CLASSIC.of(configuration)) ? Integer.MAX_VALUE - 1 : 65_535;
    }

    private static boolean isInBundle(PulsarService pulsar, String topic, String range) {
        try {
            NamespaceBundle bundle = pulsar.getNamespaceService().getBundle(TopicName.get(topic));
            return bundle.getBundleRange().equals(range);
        } catch (RuntimeException e) {
            return false;
        }
    }

    private static String version() throws IOException {
        try (InputStream in = Parts.class.getResourceAsStream("/dispatch-audit-recorder.properties")) {
            Properties properties = new Properties();
            properties.load(in);
            return properties.getProperty("version");
        }
    }

    /** Writes what is left; the broker has given up its topics, and with them its listeners, before it asks for this. */
    void stop() {
        snapshots.stop();
        heartbeat.stop();
        writer.stop();
    }
}
