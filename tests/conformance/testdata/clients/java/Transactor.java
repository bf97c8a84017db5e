import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers of the Java client; internal/transactor/transactor.go says what it is told. */
public final class Transactor {
    private static final long STALL_MS = 30_000;
    private static final String END = "end";

    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, Input> inputs = new HashMap<>();

    /** A consumer in a group, with what it has to commit, and as whom: the client forgets that when it is closed. */
    private static final class Input {
        final String group;
        final KafkaConsumer<String, String> consumer;
        final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        Object member;

        Input(String group, KafkaConsumer<String, String> consumer) {
            this.group = group;
            this.consumer = consumer;
        }
    }

    private Transactor(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws IOException {
        Transactor t = new Transactor(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "ok" + t.run(line.split(" "));
            } catch (Exception e) {
                e.printStackTrace();
                answer = "error " + name(e) + " " + String.valueOf(e).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** The class of the exception from the server, which may be the cause of others. */
    private static String name(Throwable e) {
        String name = e.getClass().getSimpleName();
        for (Throwable t = e; t != null; t = t.getCause()) {
            if (t instanceof ApiException || t.getClass().getSimpleName().equals("CommitFailedException")) {
                name = t.getClass().getSimpleName();
            }
        }
        return name;
    }

    private String run(String[] w) throws Exception {
        switch (w[0]) {
            case "producer":
                producers.put(w[1], producer(w[2], w[3]));
                producers.get(w[1]).initTransactions();
                return "";
            case "begin":
                producers.get(w[1]).beginTransaction();
                return "";
            case "send":
                return send(producers.get(w[1]), w);
            case "offsets":
                sendOffsets(producers.get(w[1]), inputs.get(w[2]));
                return "";
            case "commit":
                producers.get(w[1]).commitTransaction();
                return "";
            case "abort":
                producers.get(w[1]).abortTransaction();
                return "";
            case "consumer":
                Input input = new Input(w[2], consumer(w[2], w[4]));
                input.consumer.subscribe(Collections.singletonList(w[3]));
                inputs.put(w[1], input);
                return "";
            case "poll":
                return poll(inputs.get(w[1]));
            case "close":
                inputs.get(w[1]).consumer.close();
                return "";
            case "read":
                return read(w[1], Integer.parseInt(w[2]), w[3]);
            default:
                throw new IllegalArgumentException("unknown command " + w[0]);
        }
    }

    private KafkaProducer<String, String> producer(String id, String timeoutMs) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("transactional.id", id);
        p.put("transaction.timeout.ms", timeoutMs);
        return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String group, String protocol) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("isolation.level", "read_committed");
        p.put("max.poll.records", "10");
        if (protocol.equals("consumer")) {
            p.put("group.protocol", "consumer");
        } else {
            p.put("session.timeout.ms", "3000");
            p.put("heartbeat.interval.ms", "500");
        }
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    private static String send(KafkaProducer<String, String> producer, String[] w) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 4; i < w.length; i++) {
            sent.add(producer.send(new ProducerRecord<>(w[2], Integer.valueOf(w[3]), null, w[i])));
        }
        producer.flush();
        for (Future<RecordMetadata> f : sent) {
            f.get();
        }
        return "";
    }

    /** Offsets by the group's id alone before Kafka 2.5, and as a member of it since (KIP-447). */
    private static void sendOffsets(KafkaProducer<String, String> producer, Input input) throws Exception {
        Class<?> as = input.member == null ? String.class : Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
        try {
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, as)
                .invoke(producer, input.next, input.member == null ? input.group : input.member);
        } catch (java.lang.reflect.InvocationTargetException e) {
            throw (Exception) e.getCause();
        }
    }

    private static String poll(Input input) throws Exception {
        StringBuilder out = new StringBuilder();
        for (long began = System.currentTimeMillis(); out.length() == 0; ) {
            for (ConsumerRecord<String, String> r : input.consumer.poll(Duration.ofMillis(200))) {
                out.append(' ').append(r.partition()).append(':').append(r.value());
                input.next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
            }
            if (System.currentTimeMillis() - began > STALL_MS) {
                throw new IOException("nothing came");
            }
        }
        try {
            input.member = KafkaConsumer.class.getMethod("groupMetadata").invoke(input.consumer);
        } catch (NoSuchMethodException e) {
            input.member = null;
        }
        return out.toString();
    }

    private String read(String topic, int partitions, String isolation) throws IOException {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("enable.auto.commit", "false");
        p.put("isolation.level", "read_" + isolation);
        List<TopicPartition> assigned = new ArrayList<>();
        for (int i = 0; i < partitions; i++) {
            assigned.add(new TopicPartition(topic, i));
        }
        StringBuilder out = new StringBuilder();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            long began = System.currentTimeMillis();
            for (int ended = 0; ended < partitions; ) {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200))) {
                    out.append(' ').append(r.partition()).append(':').append(r.value());
                    ended += r.value().equals(END) ? 1 : 0;
                }
                if (System.currentTimeMillis() - began > STALL_MS) {
                    throw new IOException("stalled after" + out);
                }
            }
        }
        return out.toString();
    }
}
