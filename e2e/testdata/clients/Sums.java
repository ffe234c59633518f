import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Adds up the numbers of each key with Kafka Streams, exactly once: Sums BOOTSTRAP FROM TO STATE-DIR. Stops when stdin ends. */
public class Sums {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("application.id", "sums");
        p.put("bootstrap.servers", args[0]);
        p.put("processing.guarantee", "exactly_once_v2");
        p.put("state.dir", args[3]);
        p.put("commit.interval.ms", "100");
        p.put("replication.factor", "1");
        p.put("statestore.cache.max.bytes", "0");
        p.put("producer.transaction.timeout.ms", "20000");
        p.put("consumer.session.timeout.ms", "6000");
        p.put("consumer.auto.offset.reset", "earliest");
        p.put("reconnect.backoff.max.ms", "200");
        var builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.String()))
            .mapValues(v -> Long.parseLong(v))
            .selectKey((k, v) -> "sum-" + k)
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
            .reduce(Long::sum, Materialized.with(Serdes.String(), Serdes.Long()))
            .toStream().mapValues(v -> String.valueOf(v))
            .to(args[2], Produced.with(Serdes.String(), Serdes.String()));
        var streams = new KafkaStreams(builder.build(), p);
        streams.setUncaughtExceptionHandler(e -> {
            System.out.println("thread replaced after " + e);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        System.in.read();
        streams.close(java.time.Duration.ofSeconds(20));
        System.out.println("done");
    }
}
