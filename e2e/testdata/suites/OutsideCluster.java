package org.apache.kafka.common.test.junit;

import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;

import org.mockito.Answers;
import org.mockito.Mockito;
import org.opentest4j.TestAbortedException;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * One hawser as Kafka's tests see a cluster. What they ask their brokers in the same process for (ports, whether
 * a topic has come, its id) is answered with what a client sees; whatever else they look at there is a mock.
 */
class OutsideCluster implements ClusterInstance {
    private static final Pattern READY = Pattern.compile("hawser ready kafka=\\S+:(\\d+) http=\\S+ cluster=(\\S+)");
    private static final Set<String> NOT_OURS = Set.of(
        "listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name", "process.roles");

    private final ClusterConfig config;
    private final boolean combined;
    private final Map<Integer, KafkaBroker> brokers = new HashMap<>();
    private final Map<Integer, ControllerServer> controllers = new HashMap<>();
    private Process process;
    private Path dir;
    private int port;
    private String id;
    private Admin admin;
    private boolean started, stopped;

    OutsideCluster(ClusterConfig config, boolean combined) {
        this.config = config;
        this.combined = combined;
    }

    /** Leaves a test out that wants what one hawser is not. */
    void check() {
        if (config.numBrokers() != 1) throw new TestAbortedException("wants " + config.numBrokers() + " brokers");
        String protocols = config.serverProperties().getOrDefault("group.coordinator.rebalance.protocols", "");
        if (protocols.contains("streams") || protocols.contains("share")) throw new TestAbortedException("wants groups of " + protocols);
        if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT)
            throw new TestAbortedException("wants a listener for " + config.brokerSecurityProtocol());
        for (Map.Entry<Feature, Short> f : config.features().entrySet())
            if (f.getValue() != f.getKey().latestProduction())
                throw new TestAbortedException("wants feature " + f.getKey().featureName() + "=" + f.getValue());
    }

    private List<String> command() {
        List<String> c = new ArrayList<>(List.of(System.getProperty("hawser"), "serve", "--data", dir.resolve("data").toString(),
            "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--node-id", "0"));
        Map<String, String> all = new HashMap<>(config.serverProperties());
        all.putAll(config.perServerOverrideProperties().getOrDefault(0, Map.of()));
        Set<String> known = Set.of(System.getProperty("hawser.keys").split(","));
        all.forEach((k, v) -> {
            if (NOT_OURS.contains(k)) return;
            if (k.equals("authorizer.class.name") && v.isEmpty()) return;
            if (known.contains(k)) c.addAll(List.of("--set", k + "=" + v));
            else System.out.println("not set, for hawser has no such key: " + k + "=" + v);
        });
        if (!all.containsKey("group.initial.rebalance.delay.ms")) c.addAll(List.of("--set", "group.initial.rebalance.delay.ms=0"));
        return c;
    }

    @Override
    public void start() {
        if (started) return;
        started = true;
        try {
            dir = Files.createTempDirectory("hawser-suite-");
            File log = dir.resolve("log").toFile();
            process = new ProcessBuilder(command()).redirectErrorStream(true).redirectOutput(log).start();
            Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            while (true) {
                String text = Files.readString(log.toPath());
                Matcher m = READY.matcher(text);
                if (m.find()) {
                    port = Integer.parseInt(m.group(1));
                    id = m.group(2);
                    break;
                }
                if (!process.isAlive()) throw new IllegalStateException("hawser ended: " + text);
                if (System.nanoTime() > end) throw new IllegalStateException("hawser is not ready: " + text);
                Thread.sleep(20);
            }
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
        admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers()));
        brokers.put(0, broker());
        controllers.put(0, controller());
    }

    private KafkaBroker broker() {
        BrokerServer b = Mockito.mock(BrokerServer.class, Answers.RETURNS_DEEP_STUBS);
        Mockito.doReturn(false).when(b).isShutdown();
        SocketServer sockets = sockets();
        Mockito.doReturn(sockets).when(b).socketServer();
        Mockito.doReturn(port).when(b).boundPort(Mockito.any());
        MetadataCache cache = metadata();
        Mockito.doReturn(cache).when(b).metadataCache();
        Map<String, String> p = new HashMap<>(config.serverProperties());
        p.put("node.id", "0");
        p.put("process.roles", "broker");
        p.put("controller.quorum.bootstrap.servers", "127.0.0.1:1");
        p.put("controller.listener.names", "CONTROLLER");
        p.put("listeners", "PLAINTEXT://127.0.0.1:" + port);
        KafkaConfig kc = new KafkaConfig(p);
        Mockito.doReturn(kc).when(b).config();
        GroupCoordinator groups = Mockito.mock(GroupCoordinator.class);
        Properties internal = new Properties();
        internal.put("cleanup.policy", "compact");
        Mockito.doReturn(internal).when(groups).groupMetadataTopicConfigs();
        Mockito.doReturn(groups).when(b).groupCoordinator();
        KafkaApis apis = Mockito.mock(KafkaApis.class);
        String protocols = config.serverProperties().getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer");
        Mockito.doReturn(protocols.contains("consumer")).when(apis).isConsumerGroupProtocolEnabled();
        Mockito.doReturn(apis).when(b).dataPlaneRequestProcessor();
        Mockito.doReturn(scala.Option.empty()).when(b).authorizerPlugin();
        return b;
    }

    private SocketServer sockets() {
        SocketServer s = Mockito.mock(SocketServer.class);
        Mockito.doReturn(port).when(s).boundPort(Mockito.any());
        return s;
    }

    private ControllerServer controller() {
        ControllerServer c = Mockito.mock(ControllerServer.class, Answers.RETURNS_DEEP_STUBS);
        SocketServer sockets = sockets();
        Mockito.doReturn(sockets).when(c).socketServer();
        Mockito.when(c.controller().findAllTopicIds(Mockito.any())).thenAnswer(i -> CompletableFuture.completedFuture(topicIds()));
        return c;
    }

    private MetadataCache metadata() {
        return Mockito.mock(kafka.server.metadata.KRaftMetadataCache.class, i -> switch (i.getMethod().getName()) {
            case "numPartitions" -> describe(i.getArgument(0)).map(d -> d.partitions().size());
            case "getLeaderAndIsr" -> describe(i.getArgument(0)).flatMap(d -> d.partitions().stream()
                .filter(p -> p.partition() == (int) i.getArgument(1)).findFirst()).map(OutsideCluster::leader);
            case "contains" -> describe(String.valueOf((Object) i.getArgument(0))).isPresent();
            case "getTopicId" -> describe(i.getArgument(0)).map(TopicDescription::topicId).orElse(Uuid.ZERO_UUID);
            case "topicNamesToIds" -> topicIds();
            case "getAllTopics" -> topicIds().keySet();
            case "hasAliveBroker" -> true;
            default -> Answers.RETURNS_DEEP_STUBS.answer(i);
        });
    }

    private static LeaderAndIsr leader(TopicPartitionInfo p) {
        return new LeaderAndIsr(p.leader().id(), List.of(p.leader().id()));
    }

    private Optional<TopicDescription> describe(String topic) {
        try {
            return Optional.of(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
        } catch (Exception e) {
            return Optional.empty();
        }
    }

    private Map<String, Uuid> topicIds() throws Exception {
        Map<String, Uuid> ids = new HashMap<>();
        for (TopicListing t : admin.listTopics().listings().get()) ids.put(t.name(), t.topicId());
        return ids;
    }

    @Override
    public void stop() {
        if (stopped) return;
        stopped = true;
        if (admin != null) admin.close();
        if (process != null) {
            process.destroy();
            try {
                if (!process.waitFor(20, TimeUnit.SECONDS)) process.destroyForcibly().waitFor();
                try (Stream<Path> all = Files.walk(dir)) {
                    all.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
                }
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private void waitFor(String topic, int partitions) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (describe(topic).map(d -> d.partitions().size()).orElse(0) != partitions) {
            if (System.nanoTime() > end) throw new AssertionError(topic + " has not got " + partitions + " partitions");
            Thread.sleep(20);
        }
    }

    @Override public void waitForTopic(String topic, int partitions) throws InterruptedException { waitFor(topic, partitions); }
    @Override public void waitTopicDeletion(String topic) throws InterruptedException { waitFor(topic, 0); }
    @Override public Type type() { return combined ? Type.CO_KRAFT : Type.KRAFT; }
    @Override public Map<Integer, KafkaBroker> brokers() { return brokers; }
    @Override public Map<Integer, ControllerServer> controllers() { return controllers; }
    @Override public ClusterConfig config() { return config; }
    @Override public Set<Integer> controllerIds() { return controllers.keySet(); }
    @Override public ListenerName clientListener() { return ListenerName.normalised("PLAINTEXT"); }
    @Override public ListenerName controllerListenerName() { return ListenerName.normalised("CONTROLLER"); }
    @Override public String bootstrapServers() { return "127.0.0.1:" + port; }
    @Override public String bootstrapControllers() { throw new TestAbortedException("wants a controller's own listener"); }
    @Override public Collection<SocketServer> controllerSocketServers() { throw new TestAbortedException("wants a controller's own listener"); }
    @Override public String clusterId() { return id; }
    @Override public Optional<FaultHandlerException> firstFatalException() { return Optional.empty(); }
    @Override public Optional<FaultHandlerException> firstNonFatalException() { return Optional.empty(); }
    @Override public boolean started() { return started; }
    @Override public boolean stopped() { return stopped; }
    @Override public void shutdownBroker(int broker) { throw new TestAbortedException("stops one broker of several"); }
    @Override public void startBroker(int broker) { throw new TestAbortedException("stops one broker of several"); }
    @Override public void waitForReadyBrokers() { }
    @Override public List<Authorizer> authorizers() { return List.of(); }
}
