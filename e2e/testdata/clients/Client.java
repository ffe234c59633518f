import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java client, driven by lines; the other programs here speak the same way.
 *   create BOOTSTRAP TOPIC PARTITIONS
 *   produce BOOTSTRAP TOPIC CODEC PREFIX N   keys PREFIX-0…, a value is its key and "/", eight times
 *   member BOOTSTRAP TOPIC GROUP             prints "own P,P…" and "got P OFFSET KEY VALUE" until stdin ends, commits each poll
 *   read BOOTSTRAP TOPIC GROUP N             reads N records as a member of the group, commits and ends
 * Further arguments are client configs, key=value.
 */
public class Client {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "create" -> create(args[2], Integer.parseInt(args[3]), configs(args, 4));
            case "produce" -> produce(args[2], args[4], Integer.parseInt(args[5]), configs(args, 6), args[3]);
            case "member" -> member(args[2], args[3], configs(args, 4));
            case "read" -> read(args[2], args[3], Integer.parseInt(args[4]), configs(args, 5));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static Properties configs(String[] args, int from) {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[1]);
        p.put("reconnect.backoff.max.ms", "200");
        for (int i = from; i < args.length; i++) {
            int at = args[i].indexOf('=');
            p.put(args[i].substring(0, at), args[i].substring(at + 1));
        }
        return p;
    }

    static void create(String topic, int partitions, Properties p) throws Exception {
        try (Admin admin = Admin.create(p)) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
        System.out.println("done");
    }

    static void produce(String topic, String prefix, int n, Properties p, String codec) throws Exception {
        p.put("compression.type", codec);
        p.put("linger.ms", "5");
        try (var producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            var sent = new java.util.ArrayList<java.util.concurrent.Future<?>>();
            for (int i = 0; i < n; i++) {
                String key = prefix + "-" + i;
                sent.add(producer.send(new ProducerRecord<>(topic, key, (key + "/").repeat(8))));
            }
            for (var s : sent) s.get();
        }
        System.out.println("done");
    }

    static void member(String topic, String group, Properties p) throws Exception {
        p.put("group.id", group);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("isolation.level", "read_committed");
        p.put("metadata.max.age.ms", "1000");
        Set<Integer> owned = new TreeSet<>();
        var listener = new ConsumerRebalanceListener() {
            void say() { System.out.println("own " + owned.stream().map(String::valueOf).collect(Collectors.joining(","))); }
            public void onPartitionsAssigned(Collection<TopicPartition> all) { all.forEach(t -> owned.add(t.partition())); say(); }
            public void onPartitionsRevoked(Collection<TopicPartition> all) { all.forEach(t -> owned.remove(t.partition())); say(); }
        };
        var in = new BufferedReader(new InputStreamReader(System.in));
        try (var consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic), listener);
            while (!in.ready()) {
                var records = consumer.poll(Duration.ofMillis(200));
                for (var r : records) System.out.println("got " + r.partition() + " " + r.offset() + " " + r.key() + " " + r.value());
                try {
                    if (!records.isEmpty()) consumer.commitSync();
                } catch (KafkaException e) { // a rebalance took the partitions: whoever has them reads again
                    System.err.println("commit: " + e);
                }
            }
            consumer.commitSync();
        }
        System.out.println("done");
    }

    static void read(String topic, String group, int n, Properties p) throws Exception {
        p.put("group.id", group);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (n > 0) n -= consumer.poll(Duration.ofMillis(200)).count();
            consumer.commitSync();
        }
        System.out.println("done");
    }
}
