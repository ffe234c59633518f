import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Calls the methods of the Java Admin, each on what is there, on what is not, and on what may not be, and prints an answer or
 * the class of an error for each: Administer BOOTSTRAP SETTLE-MS. The broker's id is 1, and its authorizer lets the caller do everything.
 */
public class Administer {
    static Admin admin;
    static Properties common = new Properties();
    static long settle; // ms until a broker that is another process than the controller knows what was changed
    static final TopicPartition A0 = new TopicPartition("a", 0), A1 = new TopicPartition("a", 1), A2 = new TopicPartition("a", 2);
    static final TopicPartition A9 = new TopicPartition("a", 9), NONE = new TopicPartition("none", 0), T0 = new TopicPartition("t", 0);
    static final long THEN = 1_700_000_000_000L;

    static String text(Object o) {
        if (o instanceof Map<?, ?> m) return m.entrySet().stream().map(e -> text(e.getKey()) + "=" + text(e.getValue())).sorted().collect(Collectors.joining(", ", "{", "}"));
        if (o instanceof Collection<?> c) return c.stream().map(Administer::text).sorted().collect(Collectors.joining(", ", "[", "]"));
        if (o instanceof Optional<?> p) return p.map(Administer::text).orElse("nothing");
        return String.valueOf(o);
    }

    static String fault(Throwable e) {
        while ((e instanceof ExecutionException || e instanceof java.util.concurrent.CompletionException) && e.getCause() != null) e = e.getCause();
        return e.getClass().getSimpleName();
    }

    static void say(String what, Callable<Object> call) {
        String answer;
        try {
            answer = text(call.call());
        } catch (Throwable e) {
            answer = fault(e);
        }
        System.out.println(what + "\t" + answer);
    }

    static <T> T get(KafkaFuture<T> f) throws Exception { return f.get(30, TimeUnit.SECONDS); }

    /** each waits for what was asked of each key, and has an error's class in place of what failed. */
    static <K, V> Map<String, String> each(Map<K, ? extends KafkaFuture<V>> all) {
        Map<String, String> said = new TreeMap<>();
        all.forEach((k, f) -> {
            String v;
            try {
                v = text(get(f));
            } catch (Throwable e) {
                v = fault(e);
            }
            said.put(text(k), v);
        });
        return said;
    }

    static <K, V> Map<K, V> keyed(Collection<K> keys, java.util.function.Function<K, V> of) {
        Map<K, V> m = new LinkedHashMap<>();
        for (K k : keys) m.put(k, of.apply(k));
        return m;
    }

    static KafkaProducer<String, String> producer(String transactional) {
        var p = new Properties();
        p.putAll(common);
        if (transactional != null) {
            p.put("transactional.id", transactional);
            p.put("transaction.timeout.ms", "300000");
        }
        return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String group, String... options) {
        var p = new Properties();
        p.putAll(common);
        p.put("group.id", group);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        for (int i = 0; i < options.length; i += 2) p.put(options[i], options[i + 1]);
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    static void join(Consumer<?, ?> c, String... topics) {
        c.subscribe(List.of(topics));
        for (int i = 0; i < 200 && c.assignment().isEmpty(); i++) c.poll(Duration.ofMillis(100));
    }

    public static void main(String[] args) throws Exception {
        common.put("bootstrap.servers", args[0]);
        settle = Long.parseLong(args[1]);
        common.put("default.api.timeout.ms", "20000");
        common.put("request.timeout.ms", "10000");
        admin = Admin.create(common);
        topics();
        records();
        offsets();
        producers();
        groups();
        quotas();
        scram();
        acls();
        configs();
        cluster();
        replicas();
        others();
        admin.close();
        System.out.println("done");
        System.exit(0);
    }

    static String config(Config c, String... names) {
        return Stream.of(names).map(n -> n + "=" + (c.get(n) == null ? "none" : c.get(n).value() + "/" + c.get(n).source() + "/" + c.get(n).type() + (c.get(n).isReadOnly() ? "/read-only" : "")
            + (c.get(n).isSensitive() ? "/sensitive" : ""))).collect(Collectors.joining(", "));
    }

    static void topics() {
        say("createTopics", () -> {
            var r = admin.createTopics(List.of(new NewTopic("a", 3, (short) 1).configs(Map.of("retention.ms", "-1")), new NewTopic("t", 1, (short) 1), new NewTopic("by-hand", Map.of(0, List.of(1), 1, List.of(1))),
                new NewTopic("default", Optional.empty(), Optional.empty()).configs(Map.of("retention.ms", "1000"))));
            return List.of(each(r.values()), "a has " + get(r.numPartitions("a")) + " and " + get(r.replicationFactor("a")), config(get(r.config("default")), "retention.ms", "cleanup.policy"));
        });
        say("createTopics that may not be", () -> each(admin.createTopics(List.of(new NewTopic("a", 1, (short) 1), new NewTopic("no good", 1, (short) 1), new NewTopic("zero", 0, (short) 1),
            new NewTopic("nine", 1, (short) 9), new NewTopic("elsewhere", Map.of(0, List.of(7))), new NewTopic("gap", Map.of(1, List.of(1))), new NewTopic("twice", Map.of(0, List.of(1, 1))), new NewTopic("unset", 1, (short) 1).configs(Map.of("retention.ms", "soon")),
            new NewTopic("unknown", 1, (short) 1).configs(Map.of("no.such", "1")), new NewTopic(".", 1, (short) 1), new NewTopic("x".repeat(250), 1, (short) 1))).values()));
        say("createTopics validateOnly", () -> each(admin.createTopics(List.of(new NewTopic("only", 2, (short) 1)), new CreateTopicsOptions().validateOnly(true)).values()));
        say("listTopics", () -> get(admin.listTopics().names()));
        say("listTopics internal", () -> get(admin.listTopics(new ListTopicsOptions().listInternal(true)).listings()).stream().filter(l -> !l.isInternal()).map(TopicListing::name).toList());
        say("describeTopics", () -> each(keyedTopics(admin.describeTopics(List.of("a", "by-hand", "none", "no good"), new DescribeTopicsOptions().includeAuthorizedOperations(true)).topicNameValues())));
        say("describeTopics by id", () -> {
            Uuid id = get(admin.describeTopics(List.of("a")).topicNameValues().get("a")).topicId();
            var r = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id, new Uuid(1, 2)))).topicIdValues();
            return List.of(get(r.get(id)).name(), each(Map.of("other", r.get(new Uuid(1, 2)))));
        });
        say("describeTopics, few partitions at once", () -> get(admin.describeTopics(List.of("a"), new DescribeTopicsOptions().partitionSizeLimitPerResponse(1)).allTopicNames()).get("a").partitions().size());
        say("createPartitions", () -> each(admin.createPartitions(Map.of("a", NewPartitions.increaseTo(3), "t", NewPartitions.increaseTo(0), "none", NewPartitions.increaseTo(3),
            "by-hand", NewPartitions.increaseTo(4, List.of(List.of(1), List.of(1))))).values()));
        say("createPartitions elsewhere", () -> each(admin.createPartitions(Map.of("a", NewPartitions.increaseTo(4, List.of(List.of(9))), "t", NewPartitions.increaseTo(3, List.of(List.of(1))))).values()));
        say("createPartitions validateOnly", () -> each(admin.createPartitions(Map.of("a", NewPartitions.increaseTo(9)), new CreatePartitionsOptions().validateOnly(true)).values()));
        say("partitions", () -> get(admin.describeTopics(List.of("a", "t", "by-hand")).allTopicNames()).values().stream().map(d -> d.name() + " " + d.partitions().size()).toList());
        say("deleteTopics", () -> each(admin.deleteTopics(List.of("by-hand", "none")).topicNameValues()));
        say("deleteTopics by id", () -> {
            Uuid id = get(admin.describeTopics(List.of("default")).topicNameValues().get("default")).topicId();
            var r = admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id, new Uuid(1, 2)))).topicIdValues();
            return List.of(each(Map.of("default", r.get(id), "other", r.get(new Uuid(1, 2)))));
        });
    }

    static Map<String, KafkaFuture<String>> keyedTopics(Map<String, KafkaFuture<TopicDescription>> all) {
        return all.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().thenApply(d -> d.name() + " internal=" + d.isInternal() + " operations=" + text(d.authorizedOperations()) + " id=" + !d.topicId().equals(Uuid.ZERO_UUID) + " "
            + d.partitions().stream().map(p -> p.partition() + " led by " + p.leader().id() + " on " + p.replicas().stream().map(n -> n.id()).toList() + " in sync " + p.isr().stream().map(n -> n.id()).toList() + " eligible "
                + p.elr() + " last known " + p.lastKnownElr()).toList())));
    }

    static void records() throws Exception {
        try (var p = producer(null)) {
            for (int i = 0; i < 10; i++) p.send(new ProducerRecord<>("a", 0, THEN + i * 10, "k" + i, "v")).get();
            p.send(new ProducerRecord<>("a", 1, THEN + 90, "k", "v")).get();
            p.send(new ProducerRecord<>("a", 1, THEN + 20, "k", "v")).get();
        }
        say("deleteRecords", () -> each(keyed2(admin.deleteRecords(Map.of(A0, RecordsToDelete.beforeOffset(3), A1, RecordsToDelete.beforeOffset(99), A2, RecordsToDelete.beforeOffset(-1))).lowWatermarks())));
        say("deleteRecords, again and below", () -> each(keyed2(admin.deleteRecords(Map.of(A0, RecordsToDelete.beforeOffset(2), A1, RecordsToDelete.beforeOffset(-5))).lowWatermarks())));
    }

    static Map<TopicPartition, KafkaFuture<Long>> keyed2(Map<TopicPartition, KafkaFuture<DeletedRecords>> all) {
        Map<TopicPartition, KafkaFuture<Long>> m = new HashMap<>();
        all.forEach((k, f) -> m.put(k, f.thenApply(DeletedRecords::lowWatermark)));
        return m;
    }

    static String at(ListOffsetsResult.ListOffsetsResultInfo i) {
        String when = i.timestamp() < 0 || i.timestamp() < THEN || i.timestamp() > THEN + 1000 ? (i.timestamp() < 0 ? "" + i.timestamp() : "now") : "then+" + (i.timestamp() - THEN);
        return i.offset() + " of " + when + " epoch " + text(i.leaderEpoch());
    }

    static void list(String what, OffsetSpec spec, TopicPartition... of) {
        say("listOffsets " + what, () -> {
            var r = admin.listOffsets(keyed(List.of(of), p -> spec));
            return each(keyed(List.of(of), p -> r.partitionResult(p).thenApply(Administer::at)));
        });
    }

    static void offsets() {
        list("earliest", OffsetSpec.earliest(), A0, A1, A2);
        list("latest", OffsetSpec.latest(), A0, A1, A2);
        list("max timestamp", OffsetSpec.maxTimestamp(), A0, A1, A2);
        list("at a time", OffsetSpec.forTimestamp(THEN + 45), A0, A1, A2);
        list("at a time before all", OffsetSpec.forTimestamp(0), A0, A1, A2);
        list("at a time after all", OffsetSpec.forTimestamp(THEN + 1000), A0, A1, A2);
        list("earliest local", OffsetSpec.earliestLocal(), A0, A2);
        list("latest tiered", OffsetSpec.latestTiered(), A0, A2);
        say("listOffsets of no topic", () -> get(admin.listOffsets(Map.of(NONE, OffsetSpec.latest())).partitionResult(NONE)));
    }

    static String state(ProducerState s) {
        return "epoch " + s.producerEpoch() + " sequence " + s.lastSequence() + " coordinator " + s.coordinatorEpoch() + " transaction " + s.currentTransactionStartOffset() + " told " + (s.lastTimestamp() > 0);
    }

    static void producers() throws Exception {
        try (var p = producer("x"); var q = producer("y")) {
            p.initTransactions();
            q.initTransactions();
            say("listTransactions that are empty", () -> transactions(new ListTransactionsOptions()));
            p.beginTransaction();
            p.send(new ProducerRecord<>("t", "k", "v")).get();
            p.send(new ProducerRecord<>("a", 2, "k", "v")).get();
            q.beginTransaction();
            q.send(new ProducerRecord<>("t", "k", "v")).get();
            q.commitTransaction();
            for (int i = 0; i < 200 && !transactions(new ListTransactionsOptions()).toString().contains("y CompleteCommit"); i++) Thread.sleep(50); // the answer comes before the markers
            say("listOffsets latest, read committed", () -> each(Map.of("t", admin.listOffsets(Map.of(T0, OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(T0).thenApply(Administer::at))));
            say("listOffsets max timestamp, read committed", () -> each(Map.of("t", admin.listOffsets(Map.of(T0, OffsetSpec.maxTimestamp()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(T0).thenApply(Administer::at))));
            say("listOffsets latest, read uncommitted", () -> each(Map.of("t", admin.listOffsets(Map.of(T0, OffsetSpec.latest())).partitionResult(T0).thenApply(Administer::at))));
            say("listTransactions", () -> transactions(new ListTransactionsOptions()));
            say("listTransactions ongoing", () -> transactions(new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING))));
            say("listTransactions in no state there is", () -> transactions(new ListTransactionsOptions().filterStates(List.of(TransactionState.parse("Odd")))));
            say("listTransactions of a producer id", () -> transactions(new ListTransactionsOptions().filterProducerIds(List.of(987654321L))));
            say("listTransactions long ones", () -> transactions(new ListTransactionsOptions().filterOnDuration(3_600_000)));
            say("listTransactions by pattern", () -> transactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("x.*")));
            say("listTransactions by a bad pattern", () -> transactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("(ab(cd")));
            say("describeTransactions", () -> {
                var r = admin.describeTransactions(List.of("x", "y", "none"));
                return each(keyed(List.of("x", "y", "none"), id -> r.description(id).thenApply(d -> d.state() + " coordinator " + d.coordinatorId() + " epoch " + d.producerEpoch() + " timeout " + d.transactionTimeoutMs() + " started "
                    + d.transactionStartTimeMs().isPresent() + " " + text(d.topicPartitions()))));
            });
            say("describeProducers", () -> {
                var r = admin.describeProducers(List.of(T0, A0, A2));
                return each(keyed(List.of(T0, A0, A2), tp -> r.partitionResult(tp).thenApply(s -> s.activeProducers().stream().map(Administer::state).sorted().toList())));
            });
            say("describeProducers on a broker", () -> get(admin.describeProducers(List.of(T0), new DescribeProducersOptions().brokerId(1)).partitionResult(T0)).activeProducers().size());
                say("abortTransaction of nobody", () -> get(admin.abortTransaction(new AbortTransactionSpec(T0, 987654321L, (short) 0, 0)).all()));
            say("abortTransaction", () -> {
                var s = get(admin.describeProducers(List.of(T0)).partitionResult(T0)).activeProducers().stream().filter(a -> a.currentTransactionStartOffset().isPresent()).findFirst().get();
                return get(admin.abortTransaction(new AbortTransactionSpec(T0, s.producerId(), (short) s.producerEpoch(), s.coordinatorEpoch().orElse(0))).all());
            });
            say("describeProducers after an abort", () -> get(admin.describeProducers(List.of(T0)).partitionResult(T0)).activeProducers().stream().map(s -> "sequence " + s.lastSequence() + " transaction " + s.currentTransactionStartOffset()).sorted().toList());
            say("fenceProducers", () -> {
                var r = admin.fenceProducers(List.of("x", "new"));
                return List.of("x " + get(r.epochId("x")), "new " + get(r.epochId("new")), get(r.producerId("new")) >= 0);
            });
            say("a fenced producer", () -> {
                p.send(new ProducerRecord<>("a", 2, "k", "v"));
                p.commitTransaction();
                return "commits";
            });
            p.close(Duration.ZERO);
            say("listTransactions after fencing", () -> transactions(new ListTransactionsOptions()));
        }
        try (var p = producer("z")) {
            p.initTransactions();
            p.beginTransaction();
            p.send(new ProducerRecord<>("t", "k", "v")).get();
            say("forceTerminateTransaction", () -> get(admin.forceTerminateTransaction("z").result()));
            say("forceTerminateTransaction of what is not there", () -> get(admin.forceTerminateTransaction("nobody").result()));
            say("a terminated producer", () -> {
                p.commitTransaction();
                return "commits";
            });
            p.close(Duration.ZERO);
        }
    }

    static Object transactions(ListTransactionsOptions o) throws Exception {
        return get(admin.listTransactions(o).all()).stream().map(l -> l.transactionalId() + " " + l.state()).toList();
    }

    static String members(Collection<MemberDescription> all) {
        return all.stream().map(m -> m.clientId().replaceAll("[0-9]+$", "N") + " " + text(m.groupInstanceId()) + " at " + (m.host().startsWith("/127") ? "home" : m.host()) + " has " + text(m.assignment().topicPartitions()) + " epoch " + text(m.memberEpoch()) + " upgraded " + text(m.upgraded())).sorted().toList().toString();
    }

    static String group(ConsumerGroupDescription d) {
        return d.groupState() + " " + d.type() + " simple=" + d.isSimpleConsumerGroup() + " by '" + d.partitionAssignor() + "' coordinator " + d.coordinator().id() + " epochs " + text(d.groupEpoch()) + "/" + text(d.targetAssignmentEpoch()) + " operations=" + text(d.authorizedOperations()) + " " + members(d.members());
    }

    static Map<TopicPartition, OffsetAndMetadata> to(long offset, TopicPartition... of) { return keyed(List.of(of), p -> new OffsetAndMetadata(offset, Optional.of(0), "said")); }

    static void groups() throws Exception {
        say("alterConsumerGroupOffsets of a new group", () -> get(admin.alterConsumerGroupOffsets("g-simple", to(4, A0, A1)).all()));
        say("alterConsumerGroupOffsets where nothing is", () -> {
            var r = admin.alterConsumerGroupOffsets("g-simple", to(4, A9, NONE, A2));
            return each(keyed(List.of(A9, NONE, A2), r::partitionResult));
        });
        say("alterConsumerGroupOffsets below zero", () -> get(admin.alterConsumerGroupOffsets("g-simple", Map.of(A0, new OffsetAndMetadata(0, Optional.empty(), "x".repeat(5000)))).all()));
        say("alterConsumerGroupOffsets without a name", () -> get(admin.alterConsumerGroupOffsets("", to(1, A0)).all()));
        say("listConsumerGroupOffsets", () -> get(admin.listConsumerGroupOffsets("g-simple").partitionsToOffsetAndMetadata()));
        say("listConsumerGroupOffsets of some, stable", () -> get(admin.listConsumerGroupOffsets(Map.of("g-simple", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(A0, A9, NONE)), "g-none", new ListConsumerGroupOffsetsSpec()),
            new ListConsumerGroupOffsetsOptions().requireStable(true)).all()));
        say("deleteConsumerGroupOffsets", () -> {
            var r = admin.deleteConsumerGroupOffsets("g-simple", Set.of(A1, A9, NONE));
            return each(keyed(List.of(A1, A9, NONE), r::partitionResult));
        });
        say("deleteConsumerGroupOffsets of no group", () -> get(admin.deleteConsumerGroupOffsets("g-none", Set.of(A1)).all()));
        say("listConsumerGroupOffsets after", () -> get(admin.listConsumerGroupOffsets("g-simple").partitionsToOffsetAndMetadata()).keySet());
        try (var c = consumer("g-classic", "group.instance.id", "i1", "client.id", "classic", "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
             var d = consumer("g-consumer", "group.protocol", "consumer", "client.id", "newer")) {
            join(c, "a");
            join(d, "a");
            say("describeConsumerGroups", () -> each(keyedGroups(List.of("g-classic", "g-consumer", "g-simple", "g-none"))));
            say("describeClassicGroups", () -> each(keyed2Groups(List.of("g-classic", "g-consumer", "g-simple", "g-none"))));
            say("describeShareGroups", () -> each(admin.describeShareGroups(List.of("g-classic", "g-none")).describedGroups()));
            say("describeStreamsGroups", () -> each(admin.describeStreamsGroups(List.of("g-classic", "g-none")).describedGroups()));
            say("listConsumerGroups", () -> get(admin.listConsumerGroups().all()).stream().map(l -> l.groupId() + " " + text(l.groupState()) + " " + text(l.type()) + " " + l.isSimpleConsumerGroup()).toList());
            say("listConsumerGroups that are stable", () -> get(admin.listConsumerGroups(new ListConsumerGroupsOptions().inGroupStates(Set.of(GroupState.STABLE))).all()).stream().map(l -> l.groupId()).toList());
            say("listGroups", () -> get(admin.listGroups().all()).stream().map(l -> l.groupId() + " " + text(l.groupState()) + " " + text(l.type()) + " '" + l.protocol() + "'").toList());
            say("listGroups for consumers", () -> get(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all()).stream().map(GroupListing::groupId).toList());
            say("listGroups for shares", () -> get(admin.listGroups(ListGroupsOptions.forShareGroups()).all()).stream().map(GroupListing::groupId).toList());
            say("listGroups for streams", () -> get(admin.listGroups(ListGroupsOptions.forStreamsGroups()).all()).stream().map(GroupListing::groupId).toList());
            say("listGroups of a type", () -> get(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))).all()).stream().map(GroupListing::groupId).toList());
            say("listGroups of a type and state", () -> get(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC)).inGroupStates(Set.of(GroupState.EMPTY))).all()).stream().map(GroupListing::groupId).toList());
            say("listGroups of a protocol", () -> get(admin.listGroups(new ListGroupsOptions().withProtocolTypes(Set.of(""))).all()).stream().map(GroupListing::groupId).toList());
            say("alterConsumerGroupOffsets of a group at work", () -> each(Map.of("classic", admin.alterConsumerGroupOffsets("g-classic", to(1, A0)).all(), "consumer", admin.alterConsumerGroupOffsets("g-consumer", to(1, A0)).all())));
            say("deleteConsumerGroupOffsets of a group at work", () -> each(Map.of("classic", admin.deleteConsumerGroupOffsets("g-classic", Set.of(A0)).partitionResult(A0), "consumer", admin.deleteConsumerGroupOffsets("g-consumer", Set.of(A0)).partitionResult(A0),
                "elsewhere", admin.deleteConsumerGroupOffsets("g-classic", Set.of(T0)).partitionResult(T0))));
            say("deleteConsumerGroups at work", () -> each(admin.deleteConsumerGroups(List.of("g-classic", "g-consumer", "g-none")).deletedGroups()));
            say("removeMembersFromConsumerGroup of nobody", () -> get(admin.removeMembersFromConsumerGroup("g-classic", new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("i9")))).memberResult(new MemberToRemove("i9"))));
            say("removeMembersFromConsumerGroup of no group", () -> get(admin.removeMembersFromConsumerGroup("g-none", new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("i1")))).all()));
            say("removeMembersFromConsumerGroup", () -> get(admin.removeMembersFromConsumerGroup("g-classic", new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("i1")))).all()));
            say("removeMembersFromConsumerGroup, all", () -> {
                var o = new RemoveMembersFromConsumerGroupOptions();
                o.reason("to see");
                return get(admin.removeMembersFromConsumerGroup("g-consumer", o).all());
            });
            say("describeConsumerGroups after", () -> each(keyedGroups(List.of("g-classic"))));
            say("a removed member", () -> {
                for (int i = 0; i < 300; i++) {
                    c.poll(Duration.ofMillis(100));
                    if (get(admin.describeConsumerGroups(List.of("g-classic")).all()).get("g-classic").groupState() == GroupState.STABLE) return "joins again";
                }
                return "stays away";
            });
        }
        say("deleteConsumerGroups", () -> each(admin.deleteConsumerGroups(List.of("g-classic", "g-consumer", "g-simple")).deletedGroups()));
        say("deleteShareGroups", () -> each(admin.deleteShareGroups(List.of("g-none")).deletedGroups()));
        say("deleteStreamsGroups", () -> each(admin.deleteStreamsGroups(List.of("g-none")).deletedGroups()));
        say("listStreamsGroupOffsets", () -> get(admin.listStreamsGroupOffsets(Map.of("g-none", new ListStreamsGroupOffsetsSpec())).all()));
        say("alterStreamsGroupOffsets", () -> get(admin.alterStreamsGroupOffsets("g-streams", to(1, A0)).all()));
        say("deleteStreamsGroupOffsets", () -> get(admin.deleteStreamsGroupOffsets("g-streams", Set.of(A0)).all()));
        say("listShareGroupOffsets", () -> get(admin.listShareGroupOffsets(Map.of("g-none", new ListShareGroupOffsetsSpec())).all()));
        say("alterShareGroupOffsets", () -> get(admin.alterShareGroupOffsets("g-none", Map.of(A0, 1L)).all()));
        say("deleteShareGroupOffsets", () -> get(admin.deleteShareGroupOffsets("g-none", Set.of("a")).all()));
    }

    static Map<String, KafkaFuture<String>> keyedGroups(List<String> names) {
        var r = admin.describeConsumerGroups(names, new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).describedGroups();
        return keyed(names, n -> r.get(n).thenApply(Administer::group));
    }

    static Map<String, KafkaFuture<String>> keyed2Groups(List<String> names) {
        var r = admin.describeClassicGroups(names).describedGroups();
        return keyed(names, n -> r.get(n).thenApply(d -> d.state() + " " + d.protocol() + " '" + d.protocolData() + "' " + d.isSimpleConsumerGroup() + " " + members(d.members())));
    }

    static ClientQuotaAlteration quota(Map<String, String> entity, Object... ops) {
        List<ClientQuotaAlteration.Op> all = new ArrayList<>();
        for (int i = 0; i < ops.length; i += 2) all.add(new ClientQuotaAlteration.Op((String) ops[i], (Double) ops[i + 1]));
        return new ClientQuotaAlteration(new ClientQuotaEntity(entity), all);
    }

    static Map<String, String> byDefault(String type) {
        Map<String, String> m = new HashMap<>();
        m.put(type, null);
        return m;
    }

    static void alter(String what, ClientQuotaAlteration... all) {
        say("alterClientQuotas " + what, () -> new TreeMap<>(each(admin.alterClientQuotas(List.of(all)).values())).values());
    }

    static void quotas(String what, ClientQuotaFilter f) { say("describeClientQuotas " + what, () -> get(admin.describeClientQuotas(f).entities())); }

    static void quotas() throws Exception {
        alter("user", quota(Map.of("user", "ann"), "producer_byte_rate", 1000.0, "consumer_byte_rate", 2000.0), quota(Map.of("user", "ann", "client-id", "c"), "request_percentage", 50.0));
        alter("defaults", quota(byDefault("user"), "producer_byte_rate", 500.0), quota(byDefault("client-id"), "controller_mutation_rate", 2.5), quota(Map.of("ip", "127.0.0.9"), "connection_creation_rate", 10.0));
        alter("unknown key", quota(Map.of("user", "ann"), "no_such", 1.0));
        alter("unknown entity", quota(Map.of("planet", "mars"), "producer_byte_rate", 1.0));
        alter("wrong key for an ip", quota(Map.of("ip", "127.0.0.9"), "producer_byte_rate", 1.0));
        alter("below zero", quota(Map.of("user", "ann"), "producer_byte_rate", -1.0));
        alter("a fraction", quota(Map.of("user", "ann"), "producer_byte_rate", 1.5));
        alter("empty", new ClientQuotaAlteration(new ClientQuotaEntity(Map.of()), List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1.0))));
        Thread.sleep(settle);
        quotas("all", ClientQuotaFilter.all());
        quotas("of a user", ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("user", "ann"))));
        quotas("of a user only", ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity("user", "ann"))));
        quotas("default user", ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofDefaultEntity("user"))));
        quotas("any client", ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntityType("client-id"))));
        quotas("of nobody", ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("user", "nobody"))));
        quotas("of unknown", ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("planet", "mars"))));
        alter("away", quota(Map.of("user", "ann"), "producer_byte_rate", null, "consumer_byte_rate", null), quota(Map.of("user", "ann", "client-id", "c"), "request_percentage", null), quota(byDefault("user"), "producer_byte_rate", null),
            quota(byDefault("client-id"), "controller_mutation_rate", null), quota(Map.of("ip", "127.0.0.9"), "connection_creation_rate", null));
        Thread.sleep(settle);
        quotas("all after", ClientQuotaFilter.all());
    }

    static UserScramCredentialAlteration scram(String user, ScramMechanism m, int iterations) { return new UserScramCredentialUpsertion(user, new ScramCredentialInfo(m, iterations), "secret"); }

    static String credentials(UserScramCredentialsDescription d) { return d.name() + " " + text(d.credentialInfos()); }

    static void scram() throws Exception {
        say("alterUserScramCredentials", () -> each(admin.alterUserScramCredentials(List.of(scram("ann", ScramMechanism.SCRAM_SHA_256, 4096), scram("bob", ScramMechanism.SCRAM_SHA_256, 4096))).values()));
        say("alterUserScramCredentials, another mechanism", () -> each(admin.alterUserScramCredentials(List.of(scram("ann", ScramMechanism.SCRAM_SHA_512, 8192))).values()));
        say("alterUserScramCredentials, two mechanisms at once", () -> each(admin.alterUserScramCredentials(List.of(scram("eve", ScramMechanism.SCRAM_SHA_256, 4096), scram("eve", ScramMechanism.SCRAM_SHA_512, 8192))).values()));
        for (var m : List.of(ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)) each(admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("eve", m))).values());
        say("alterUserScramCredentials that may not be", () -> each(admin.alterUserScramCredentials(List.of(scram("few", ScramMechanism.SCRAM_SHA_256, 100), scram("many", ScramMechanism.SCRAM_SHA_256, 16385), scram("", ScramMechanism.SCRAM_SHA_256, 4096),
            scram("twice", ScramMechanism.SCRAM_SHA_256, 4096), scram("twice", ScramMechanism.SCRAM_SHA_256, 4097), new UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_256))).values()));
        Thread.sleep(settle);
        say("describeUserScramCredentials", () -> get(admin.describeUserScramCredentials().all()).values().stream().map(Administer::credentials).toList());
        say("describeUserScramCredentials of some", () -> {
            var r = admin.describeUserScramCredentials(List.of("ann", "nobody"));
            return List.of(get(r.users()), each(keyed(List.of("ann", "nobody"), u -> r.description(u).thenApply(Administer::credentials))));
        });
        say("describeUserScramCredentials twice", () -> each(Map.of("ann", admin.describeUserScramCredentials(List.of("ann", "ann")).description("ann"))));
        say("alterUserScramCredentials away", () -> each(admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_256),
            new UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512))).values()));
        Thread.sleep(settle);
        say("describeUserScramCredentials after", () -> get(admin.describeUserScramCredentials().all()).values().stream().map(Administer::credentials).toList());
    }

    static AclBinding acl(ResourceType type, String name, PatternType pattern, String principal, AclOperation op) {
        return new AclBinding(new ResourcePattern(type, name, pattern), new AccessControlEntry(principal, "*", op, AclPermissionType.ALLOW));
    }

    static void acls() throws Exception {
        var read = acl(ResourceType.TOPIC, "a", PatternType.LITERAL, "User:ann", AclOperation.READ);
        var prefix = acl(ResourceType.GROUP, "g-", PatternType.PREFIXED, "User:ann", AclOperation.READ);
        say("createAcls", () -> each(admin.createAcls(List.of(read, prefix, acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:ann", AclOperation.ALTER))).values()));
        say("createAcls that may not be", () -> each(admin.createAcls(List.of(acl(ResourceType.CLUSTER, "other", PatternType.LITERAL, "User:ann", AclOperation.ALTER), acl(ResourceType.TOPIC, "a", PatternType.LITERAL, "ann", AclOperation.READ),
            acl(ResourceType.TOPIC, "", PatternType.LITERAL, "User:ann", AclOperation.READ), acl(ResourceType.USER, "bob", PatternType.LITERAL, "User:ann", AclOperation.CREATE_TOKENS), acl(ResourceType.TOPIC, "a", PatternType.LITERAL, "User:ann", AclOperation.CLUSTER_ACTION))).values()));
        Thread.sleep(settle);
        say("describeAcls", () -> get(admin.describeAcls(AclBindingFilter.ANY).values()));
        say("describeAcls that match", () -> get(admin.describeAcls(new AclBindingFilter(new ResourcePatternFilter(ResourceType.GROUP, "g-1", PatternType.MATCH), AccessControlEntryFilter.ANY)).values()));
        say("describeAcls of a principal", () -> get(admin.describeAcls(new AclBindingFilter(ResourcePatternFilter.ANY, new AccessControlEntryFilter("User:bob", null, AclOperation.ANY, AclPermissionType.ANY))).values()));
        say("deleteAcls", () -> {
            var r = admin.deleteAcls(List.of(read.toFilter(), AclBindingFilter.ANY)).values();
            return r.entrySet().stream().map(e -> {
                try {
                    return text(get(e.getValue()).values().stream().map(v -> text(v.binding()) + (v.exception() == null ? "" : fault(v.exception()))).toList());
                } catch (Throwable t) {
                    return fault(t);
                }
            }).toList();
        });
    }

    static ConfigResource resource(ConfigResource.Type type, String name) { return new ConfigResource(type, name); }

    static AlterConfigOp op(String name, String value, AlterConfigOp.OpType type) { return new AlterConfigOp(new ConfigEntry(name, value), type); }

    static void alter(String what, ConfigResource resource, AlterConfigOp... ops) { say("incrementalAlterConfigs " + what, () -> each(admin.incrementalAlterConfigs(Map.of(resource, List.of(ops))).values()).values()); }

    static void configs() throws Exception {
        var topic = resource(ConfigResource.Type.TOPIC, "a");
        var broker = resource(ConfigResource.Type.BROKER, "1");
        var brokers = resource(ConfigResource.Type.BROKER, "");
        var group = resource(ConfigResource.Type.GROUP, "g");
        var metrics = resource(ConfigResource.Type.CLIENT_METRICS, "m");
        var set = AlterConfigOp.OpType.SET;
        alter("set", topic, op("retention.ms", "5000", set), op("cleanup.policy", "compact", set));
        alter("append", topic, op("cleanup.policy", "delete", AlterConfigOp.OpType.APPEND));
        alter("subtract", topic, op("cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT));
        alter("append to what is no list", topic, op("retention.ms", "1", AlterConfigOp.OpType.APPEND));
        alter("unknown", topic, op("no.such", "1", set));
        alter("bad", topic, op("retention.ms", "soon", set));
        alter("twice", topic, op("retention.ms", "1", set), op("retention.ms", "", AlterConfigOp.OpType.DELETE));
        alter("of no topic", resource(ConfigResource.Type.TOPIC, "none"), op("retention.ms", "5000", set));
        alter("broker", broker, op("log.cleaner.threads", "1", set));
        alter("brokers", brokers, op("log.retention.ms", "123456", set));
        alter("broker, fixed", broker, op("broker.id", "5", set));
        alter("a broker without a number", resource(ConfigResource.Type.BROKER, "one"), op("log.cleaner.threads", "1", set));
        alter("logger", resource(ConfigResource.Type.BROKER_LOGGER, "1"), op("no.such.logger", "LOUD", set));
        alter("group", group, op("consumer.session.timeout.ms", "50000", set));
        alter("group, bad", group, op("consumer.session.timeout.ms", "1", set));
        alter("group, unknown", group, op("no.such", "1", set));
        alter("metrics", metrics, op("interval.ms", "60000", set), op("metrics", "org.apache.kafka.producer.", set), op("match", "client_software_name=.*", set));
        alter("metrics, bad", metrics, op("interval.ms", "1", set));
        Thread.sleep(settle);
        say("describeConfigs", () -> {
            var r = admin.describeConfigs(List.of(topic, broker, brokers, group, metrics), new DescribeConfigsOptions().includeSynonyms(true)).values();
            Map<String, String> m = new TreeMap<>();
            m.put("topic", config(get(r.get(topic)), "retention.ms", "cleanup.policy", "segment.bytes", "no.such"));
            m.put("synonyms", get(r.get(topic)).get("retention.ms").synonyms().stream().map(s -> s.name() + "=" + s.value() + "/" + s.source()).toList().toString());
            m.put("broker", config(get(r.get(broker)), "log.cleaner.threads", "broker.id", "log.retention.ms", "ssl.keystore.password", "num.io.threads"));
            m.put("brokers", config(get(r.get(brokers)), "log.retention.ms", "log.cleaner.threads"));
            m.put("group", config(get(r.get(group)), "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"));
            m.put("metrics", config(get(r.get(metrics)), "interval.ms", "metrics", "match"));
            return m;
        });
        say("describeConfigs of what is not there", () -> each(keyed3(admin.describeConfigs(List.of(resource(ConfigResource.Type.TOPIC, "none"), resource(ConfigResource.Type.TOPIC, "no good"), resource(ConfigResource.Type.CLIENT_METRICS, "none"),
            resource(ConfigResource.Type.GROUP, "none"))).values())));
        say("listConfigResources", () -> get(admin.listConfigResources().all()));
        for (var type : ConfigResource.Type.values())
            say("listConfigResources " + type, () -> get(admin.listConfigResources(Set.of(type), new ListConfigResourcesOptions()).all()));
        say("listClientMetricsResources", () -> get(admin.listClientMetricsResources().all()));
        alter("away", topic, op("retention.ms", "", AlterConfigOp.OpType.DELETE), op("cleanup.policy", "", AlterConfigOp.OpType.DELETE));
        alter("brokers, away", brokers, op("log.retention.ms", "", AlterConfigOp.OpType.DELETE));
        alter("metrics, away", metrics, op("interval.ms", "", AlterConfigOp.OpType.DELETE), op("metrics", "", AlterConfigOp.OpType.DELETE), op("match", "", AlterConfigOp.OpType.DELETE));
        alter("group, away", group, op("consumer.session.timeout.ms", "", AlterConfigOp.OpType.DELETE));
        Thread.sleep(settle);
        say("listConfigResources after", () -> get(admin.listConfigResources(Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all()));
    }

    static Map<ConfigResource, KafkaFuture<String>> keyed3(Map<ConfigResource, KafkaFuture<Config>> all) {
        Map<ConfigResource, KafkaFuture<String>> m = new HashMap<>();
        all.forEach((k, f) -> m.put(k, f.thenApply(c -> c.entries().isEmpty() ? "nothing" : "some")));
        return m;
    }

    static void cluster() {
        say("describeCluster", () -> {
            var r = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true));
            return List.of(get(r.nodes()).stream().map(n -> n.id() + " rack " + n.rack() + " fenced " + n.isFenced()).toList(), "controller " + get(r.controller()).id(), "id " + get(r.clusterId()).length(), get(r.authorizedOperations()));
        });
        say("describeFeatures", () -> {
            var f = get(admin.describeFeatures().featureMetadata());
            return List.of(f.finalizedFeatures(), f.supportedFeatures());
        });
        say("updateFeatures of none", () -> each(admin.updateFeatures(Map.of("no.such", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).values()));
        say("describeMetadataQuorum", () -> {
            var q = get(admin.describeMetadataQuorum().quorumInfo());
            return "leader " + q.leaderId() + " epoch " + (q.leaderEpoch() > 0) + " end " + (q.highWatermark() > 0) + " voters " + q.voters().stream().map(v -> v.replicaId() + " " + (v.logEndOffset() > 0) + " " + v.lastFetchTimestamp().isPresent()).toList() + " observers " + q.observers().size();
        });
        say("addRaftVoter", () -> get(admin.addRaftVoter(9, new Uuid(1, 2), Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 9999))).all()));
        say("removeRaftVoter", () -> get(admin.removeRaftVoter(9, new Uuid(1, 2)).all()));
        say("unregisterBroker that is not", () -> get(admin.unregisterBroker(77).all()));
    }

    static void replicas() {
        say("electLeaders preferred", () -> text(get(admin.electLeaders(ElectionType.PREFERRED, Set.of(A0, NONE)).partitions()).entrySet().stream().map(e -> e.getKey() + " " + e.getValue().map(Administer::fault).orElse("done")).toList()));
        say("electLeaders unclean", () -> text(get(admin.electLeaders(ElectionType.UNCLEAN, Set.of(A0, A9)).partitions()).entrySet().stream().map(e -> e.getKey() + " " + e.getValue().map(Administer::fault).orElse("done")).toList()));
        say("electLeaders of all", () -> get(admin.electLeaders(ElectionType.PREFERRED, null).partitions()));
        say("alterPartitionReassignments", () -> each(admin.alterPartitionReassignments(Map.of(A0, Optional.of(new NewPartitionReassignment(List.of(1))), A1, Optional.empty(), A2, Optional.of(new NewPartitionReassignment(List.of(9))),
            NONE, Optional.of(new NewPartitionReassignment(List.of(1))), A9, Optional.empty())).values()));
        say("alterPartitionReassignments twice on one", () -> each(admin.alterPartitionReassignments(Map.of(A0, Optional.of(new NewPartitionReassignment(List.of(1, 1))))).values()));
        say("listPartitionReassignments", () -> get(admin.listPartitionReassignments().reassignments()));
        say("listPartitionReassignments of some", () -> get(admin.listPartitionReassignments(Set.of(A0, NONE)).reassignments()));
        say("describeLogDirs", () -> get(admin.describeLogDirs(List.of(1)).allDescriptions()).get(1).values().stream().map(d -> (d.error() == null ? "" : fault(d.error())) + " " + d.replicaInfos().entrySet().stream().filter(e -> !e.getKey().topic().startsWith("_"))
            .map(e -> e.getKey() + " lag " + e.getValue().offsetLag() + " future " + e.getValue().isFuture()).sorted().toList() + " total " + d.totalBytes().isPresent() + " usable " + d.usableBytes().isPresent()).toList());
        say("describeReplicaLogDirs", () -> {
            var all = List.of(new TopicPartitionReplica("a", 0, 1), new TopicPartitionReplica("none", 0, 1));
            var r = admin.describeReplicaLogDirs(all).values();
            return each(keyed(all, k -> r.get(k).thenApply(i -> "in " + (i.getCurrentReplicaLogDir() != null) + " lag " + i.getCurrentReplicaOffsetLag() + " future " + i.getFutureReplicaLogDir())));
        });
        say("alterReplicaLogDirs elsewhere", () -> each(admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica("a", 0, 1), "/no/such/folder")).values()));
        say("alterReplicaLogDirs to where it is", () -> {
            String dir = get(admin.describeLogDirs(List.of(1)).allDescriptions()).get(1).keySet().iterator().next();
            return each(admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica("a", 0, 1), dir, new TopicPartitionReplica("none", 0, 1), dir)).values());
        });
    }

    static void others() {
        say("createDelegationToken", () -> get(admin.createDelegationToken().delegationToken()));
        say("describeDelegationToken", () -> get(admin.describeDelegationToken().delegationTokens()));
        say("renewDelegationToken", () -> get(admin.renewDelegationToken(new byte[] {1}).expiryTimestamp()));
        say("expireDelegationToken", () -> get(admin.expireDelegationToken(new byte[] {1}).expiryTimestamp()));
        say("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(5)).equals(Uuid.ZERO_UUID));
    }
}
