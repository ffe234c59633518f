import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Reads, processes and writes exactly once: Copy BOOTSTRAP FROM TO GROUP. Each transaction takes a few
 * records of FROM, writes them to TO and commits the group's offsets with them; then it asks at once for
 * the offsets, which must be the new ones. Says "at N" after each commit; stops when stdin ends.
 */
public class Copy {
    public static void main(String[] args) throws Exception {
        long done = 0;
        while (System.in.available() == 0) {
            try {
                done = copy(args[0], args[1], args[2], args[3], done);
            } catch (AuthorizationException e) {
                throw e;
            } catch (KafkaException e) { // fatal for this producer: the next one fences it and begins where the offsets say
                System.err.println("again after " + e);
                Thread.sleep(100);
            }
        }
        System.out.println("done");
    }

    static long copy(String bootstrap, String from, String to, String group, long done) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("reconnect.backoff.max.ms", "200");
        Properties c = new Properties();
        c.putAll(p);
        c.put("group.id", group);
        c.put("enable.auto.commit", "false");
        c.put("auto.offset.reset", "earliest");
        c.put("isolation.level", "read_committed");
        c.put("max.poll.records", "7");
        c.put("session.timeout.ms", "6000");
        c.put("heartbeat.interval.ms", "1000");
        p.put("transactional.id", group);
        p.put("transaction.timeout.ms", "20000");
        try (var consumer = new KafkaConsumer<>(c, new StringDeserializer(), new StringDeserializer());
             var producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            while (System.in.available() == 0) {
                var records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (var r : records) {
                    producer.send(new ProducerRecord<>(to, r.key(), r.value()));
                    next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                producer.commitTransaction();
                var now = consumer.committed(next.keySet());
                for (var e : next.entrySet()) {
                    if (now.get(e.getKey()) == null || now.get(e.getKey()).offset() != e.getValue().offset())
                        System.out.println("stale " + e + " but " + now.get(e.getKey()));
                }
                done += records.count();
                System.out.println("at " + done);
            }
        }
        return done;
    }
}
