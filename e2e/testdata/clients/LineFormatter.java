import java.io.PrintStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.header.Header;

/** Prints all that a consumer knows of a record in a line, for Kafka's console consumer: its own formatter leaves out the topic and null headers. */
public class LineFormatter implements MessageFormatter {
    @Override
    public void writeTo(ConsumerRecord<byte[], byte[]> r, PrintStream out) {
        StringBuilder line = new StringBuilder();
        line.append(r.topic()).append(' ').append(r.partition()).append(' ').append(r.offset());
        line.append(' ').append(r.timestampType()).append(' ').append(r.timestamp());
        line.append(" epoch=").append(r.leaderEpoch().map(String::valueOf).orElse("none"));
        line.append(" k=").append(text(r.key())).append(" v=").append(text(r.value())).append(" h=");
        for (Header header : r.headers()) {
            line.append(header.key()).append('=').append(text(header.value())).append(',');
        }
        out.println(line);
    }

    /** Bytes in hex, long ones as size and SHA-256. */
    private static String text(byte[] bytes) {
        if (bytes == null) {
            return "null";
        }
        if (bytes.length <= 1024) {
            return "'" + HexFormat.of().formatHex(bytes) + "'";
        }
        try {
            return bytes.length + " bytes " + HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
