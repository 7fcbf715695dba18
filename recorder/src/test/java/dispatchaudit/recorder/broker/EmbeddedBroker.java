package dispatchaudit.recorder.broker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.URI;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.common.allocator.PoolingPolicy;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.common.naming.SystemTopicNames;
import org.apache.pulsar.common.partition.PartitionedTopicMetadata;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.TenantInfo;
import org.apache.pulsar.metadata.bookkeeper.BKCluster;

/**
 * A broker and a bookie in this JVM, on the loopback interface alone, with metadata in memory. It finds the recorder as every
 * broker does: as a NAR in its directory of interceptors.
 */
public final class EmbeddedBroker implements AutoCloseable {
    private static final String HOST = "127.0.0.1";
    private static final String CLUSTER = "test";

    private final BKCluster bookies;
    private final Properties properties;
    private PulsarService broker;

    private EmbeddedBroker(BKCluster bookies, Properties properties) {
        this.bookies = bookies;
        this.properties = properties;
    }

    /**
     * Returns a broker that takes traffic in the namespace public/default.
     *
     * @param nar the recorder, or null for a broker without it
     * @param settings names of broker.conf to values, those of the recorder among them
     */
    public static EmbeddedBroker start(Path nar, Map<String, String> settings) throws Exception {
        String metadata = "memory:" + UUID.randomUUID();
        Properties properties = properties(metadata, nar, settings);
        EmbeddedBroker started = new EmbeddedBroker(bookies(metadata), properties);
        try {
            started.startBroker();
            started.createNamespace();
            if (started.broker.getConfiguration().isTransactionCoordinatorEnabled()) {
                started.createTransactionCoordinator();
            }
            return started;
        } catch (Exception e) {
            started.close();
            throw e;
        }
    }

    private void startBroker() throws Exception {
        broker = new PulsarService(PulsarConfigurationLoader.create(properties, ServiceConfiguration.class));
        broker.start();
    }

    /** Stops the broker in order, and starts it on the same metadata and the same bookie; its ports are others then. */
    void restart() throws Exception {
        broker.close();
        startBroker();
    }

    /** Up to 4.2 a bookie looks for a free port and takes it later; where somebody else was faster, it looks once more. */
    private static BKCluster bookies(String metadata) throws Exception {
        BKCluster.BKClusterConf one = BKCluster.builder().metadataServiceUri(metadata).numBookies(1);
        try {
            return one.baseServerConfiguration(bookie()).build();
        } catch (IOException portIsTaken) {
            return one.baseServerConfiguration(bookie()).build();
        }
    }

    /** As Pulsar's own tests have it, but they collect unused ledgers each second: that of 3.0.7 deletes one in use. */
    private static ServerConfiguration bookie() throws Exception {
        ServerConfiguration configuration = new ServerConfiguration();
        configuration.setGcWaitTime(TimeUnit.MINUTES.toMillis(30));
        configuration.setListeningInterface(NetworkInterface.getByInetAddress(InetAddress.getLoopbackAddress()).getName());
        configuration.setAllowLoopback(true);
        configuration.setAllowEphemeralPorts(true);
        configuration.setBookiePort(0);
        configuration.setJournalFlushWhenQueueEmpty(true);
        configuration.setJournalFormatVersionToWrite(5);
        configuration.setJournalWriteData(false);
        configuration.setProperty("journalPreAllocSizeMB", 1);
        configuration.setDiskUsageThreshold(0.999f);
        configuration.setDiskUsageWarnThreshold(0.99f);
        configuration.setAllocatorPoolingPolicy(PoolingPolicy.UnpooledHeap);
        return configuration;
    }

    private static Properties properties(String metadata, Path nar, Map<String, String> settings) {
        Properties properties = new Properties();
        properties.setProperty("metadataStoreUrl", metadata);
        properties.setProperty("configurationMetadataStoreUrl", metadata);
        properties.setProperty("clusterName", CLUSTER);
        properties.setProperty("advertisedAddress", HOST);
        properties.setProperty("bindAddress", HOST);
        properties.setProperty("brokerServicePort", "0");
        properties.setProperty("webServicePort", "0");
        properties.setProperty("managedLedgerDefaultEnsembleSize", "1");
        properties.setProperty("managedLedgerDefaultWriteQuorum", "1");
        properties.setProperty("managedLedgerDefaultAckQuorum", "1");
        properties.setProperty("bookkeeperNumberOfChannelsPerBookie", "1");
        properties.setProperty("defaultNumberOfNamespaceBundles", "1");
        properties.setProperty("numIOThreads", "4");
        properties.setProperty("numOrderedExecutorThreads", "2");
        properties.setProperty("managedLedgerNumWorkerThreads", "2");
        properties.setProperty("managedLedgerCacheSizeMB", "64");
        properties.setProperty("loadBalancerEnabled", "false");
        properties.setProperty("brokerShutdownTimeoutMs", "5000");
        if (nar != null) {
            properties.setProperty("brokerInterceptorsDirectory", nar.getParent().toString());
            properties.setProperty("brokerInterceptors", "dispatch-audit-recorder");
        }
        settings.forEach(properties::setProperty);
        return properties;
    }

    private void createNamespace() throws Exception {
        PulsarAdmin admin = broker.getAdminClient();
        admin.clusters().createCluster(CLUSTER, ClusterData.builder()
                .serviceUrl(adminUrl()).brokerServiceUrl(serviceUrl()).build());
        admin.tenants().createTenant("public", TenantInfo.builder().allowedClusters(Set.of(CLUSTER)).build());
        admin.namespaces().createNamespace("public/default", Set.of(CLUSTER));
    }

    /** As {@code bin/pulsar initialize-transaction-coordinator-metadata}: the admin API forbids the name. */
    private void createTransactionCoordinator() throws Exception {
        PulsarAdmin admin = broker.getAdminClient();
        admin.tenants().createTenant("pulsar", TenantInfo.builder().allowedClusters(Set.of(CLUSTER)).build());
        admin.namespaces().createNamespace("pulsar/system", Set.of(CLUSTER));
        broker.getPulsarResources().getNamespaceResources().getPartitionedTopicResources().createPartitionedTopic(
                SystemTopicNames.TRANSACTION_COORDINATOR_ASSIGN, new PartitionedTopicMetadata(1));
    }

    public String serviceUrl() {
        return "pulsar://" + HOST + ":" + port(broker.getBrokerListenPort());
    }

    public String adminUrl() {
        return "http://" + HOST + ":" + port(broker.getListenPortHTTP());
    }

    /** What the admin API says of a topic: {@code stats} or {@code internalStats}. */
    JsonNode ask(String topic, String what) throws Exception {
        URI uri = URI.create(adminUrl() + "/admin/v2/" + topic.replace("://", "/") + "/" + what);
        try (InputStream answer = uri.toURL().openStream()) {
            return new ObjectMapper().readTree(answer);
        }
    }

    /** What only the broker knows; tests hold recorded rows against it. */
    public PulsarService service() {
        return broker;
    }

    private static int port(Optional<Integer> listening) {
        return listening.orElseThrow();
    }

    @Override
    public void close() throws Exception {
        try {
            if (broker != null) {
                broker.close();
            }
        } finally {
            bookies.close();
        }
    }
}
