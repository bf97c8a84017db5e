import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Conformance driver for the Java client; the workload is defined in internal/workload/workload.go. */
public final class Driver {
    private static final String[] WORDS = {
        "the ", "quick ", "brown ", "fox ", "jumps ", "over ", "lazy ", "dog ",
        "stream", "record", "offset", "leader", "replica", "broker", "topic", "segment",
        "\u0000", "\u00ff\u00fe", "\n", "\r\n", "\t", "\"", "\\", "\u00c3\u00a9",
        "\u00e6\u0097\u00a5\u00e6\u009c\u00ac", "\u0000\u0000\u0000\u0000", "0123456789", "{\"a\":1}", ",", "=",
        "\u007f\u0080", "\u00f0\u009f\u0098\u0080",
    };
    private static final int POOL_SIZE = 1_200_000;
    private static final int BIG_VALUE_SIZE = 1_000_000;
    private static final long STALL_MS = 20_000;

    private final byte[] pool = pool();
    private final String bootstrap;
    private int state;

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws IOException {
        Driver driver = new Driver(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "ok" + driver.run(line.split(" "));
            } catch (Exception e) {
                e.printStackTrace();
                answer = "error " + String.valueOf(e).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "create":
                return create(words[1], Integer.parseInt(words[2]));
            case "produce":
                return produce(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), words[4], words[5]);
            case "consume":
                return consume(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private String create(String topic, int partitions) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        try (AdminClient admin = AdminClient.create(p)) {
            NewTopic t = new NewTopic(topic, partitions, (short) 1).configs(Collections.singletonMap("retention.ms", "-1"));
            admin.createTopics(Collections.singleton(t)).all().get();
        }
        return "";
    }

    private String produce(String topic, int partitions, int records, String codec, String acks) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("acks", acks);
        p.put("compression.type", codec);
        p.put("linger.ms", "5");
        boolean all = acks.equals("all");
        p.put("enable.idempotence", String.valueOf(all));
        p.put("max.in.flight.requests.per.connection", all ? "5" : "1"); // keeps the order when a request is repeated
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < records; i++) {
                producer.send(record(topic, i, partitions), (meta, e) -> {
                    if (e != null) {
                        failure.compareAndSet(null, e);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        return "";
    }

    private String consume(String topic, int partitions, int records) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("max.poll.records", "5000");
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "none");
        List<TopicPartition> assigned = new ArrayList<>();
        Map<Integer, PartitionDigest> digests = new HashMap<>();
        for (int i = 0; i < partitions; i++) {
            assigned.add(new TopicPartition(topic, i));
            digests.put(i, new PartitionDigest());
        }
        int read = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            long last = System.currentTimeMillis();
            while (read < records) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofSeconds(1))) {
                    digests.get(r.partition()).add(r);
                    read++;
                    last = System.currentTimeMillis();
                }
                if (System.currentTimeMillis() - last > STALL_MS) {
                    throw new IOException("stalled after " + read + " of " + records + " records");
                }
            }
        }
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < partitions; i++) {
            out.append(' ').append(digests.get(i).result());
        }
        return out.toString();
    }

    private ProducerRecord<byte[], byte[]> record(String topic, int i, int partitions) {
        state = (i + 1) * (int) 2654435761L;
        int r1 = next();
        int r2 = next();
        int r3 = next();
        int r4 = next();
        int r5 = next();
        int r6 = next();
        byte[] key = ("key-" + Integer.remainderUnsigned(r1, 1000)).getBytes(StandardCharsets.UTF_8);
        if (i % 10 == 3) {
            key = null;
        } else if (i % 10 == 7) {
            key = new byte[0];
        }
        byte[] value;
        if (i % 20 == 5 || i % 30 == 13) {
            value = null;
        } else if (i % 20 == 11) {
            value = new byte[0];
        } else if (i % 12_500 == 2_500) {
            value = cut(Integer.remainderUnsigned(r2, 200_000), BIG_VALUE_SIZE);
        } else {
            value = cut(Integer.remainderUnsigned(r2, 1_000_000), 1 + Integer.remainderUnsigned(r3, 600));
        }
        List<Header> headers = new ArrayList<>();
        int count = Integer.remainderUnsigned(r4, 4);
        for (int j = 0; j < count; j++) {
            int m = (r5 >>> (3 * j)) & 7;
            byte[] v = null;
            if (m == 1) {
                v = new byte[0];
            } else if (m > 1) {
                v = cut(Integer.remainderUnsigned(r6 + 37 * j, 1_000_000), 1 + Integer.remainderUnsigned(r5 >>> (8 + j), 40));
            }
            headers.add(new RecordHeader(count == 3 && j == 2 ? "h1" : "h" + j, v));
        }
        return new ProducerRecord<>(topic, i % partitions, 1_700_000_000_000L + i, key, value, headers);
    }

    private byte[] cut(int from, int size) {
        return Arrays.copyOfRange(pool, from, from + size);
    }

    private int next() {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return state;
    }

    private byte[] pool() {
        ByteArrayOutputStream out = new ByteArrayOutputStream(POOL_SIZE + 16);
        state = (int) 2463534242L;
        while (out.size() < POOL_SIZE) {
            byte[] word = WORDS[next() & 31].getBytes(StandardCharsets.ISO_8859_1);
            out.write(word, 0, word.length);
        }
        return out.toByteArray();
    }

    /** The digest of one partition; refuses an offset that does not follow the one before. */
    private static final class PartitionDigest {
        private final MessageDigest sha;
        private final ByteArrayOutputStream buf = new ByteArrayOutputStream();
        private final DataOutputStream out = new DataOutputStream(buf);
        private long due;

        PartitionDigest() throws Exception {
            sha = MessageDigest.getInstance("SHA-256");
        }

        void add(ConsumerRecord<byte[], byte[]> r) throws IOException {
            if (r.offset() != due) {
                throw new IOException("partition " + r.partition() + ": offset " + r.offset() + " came where " + due + " was due");
            }
            due++;
            buf.reset();
            out.writeLong(r.offset());
            out.writeLong(r.timestamp());
            bytes(r.key());
            bytes(r.value());
            Header[] headers = r.headers().toArray();
            out.writeInt(headers.length);
            for (Header h : headers) {
                bytes(h.key().getBytes(StandardCharsets.UTF_8));
                bytes(h.value());
            }
            sha.update(buf.toByteArray());
        }

        private void bytes(byte[] b) throws IOException {
            out.writeInt(b == null ? -1 : b.length);
            if (b != null) {
                out.write(b);
            }
        }

        String result() {
            StringBuilder hex = new StringBuilder(due + ":");
            for (byte b : sha.digest()) {
                hex.append(String.format("%02x", b));
            }
            return hex.toString();
        }
    }
}
