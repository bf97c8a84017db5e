import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group that runs the Java client; internal/member/member.go says how it speaks. */
public final class Member implements ConsumerRebalanceListener {
    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);

    private final String name;

    private Member(String name) {
        this.name = name;
    }

    public static void main(String[] args) {
        Member member = new Member(args[3]);
        try {
            member.run(args);
        } catch (Exception e) {
            e.printStackTrace();
            member.say("error " + String.valueOf(e).replace('\n', ' '));
            System.exit(1);
        }
        System.exit(0);
    }

    private void run(String[] args) throws Exception {
        LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(commands));
        reader.setDaemon(true);
        reader.start();
        String topic = args[2];
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties(args), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(Collections.singletonList(topic), this);
            for (String command = ""; !command.equals("leave"); ) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(50))) {
                    say("record " + r.partition() + " " + r.offset());
                }
                command = String.valueOf(commands.poll());
                if (command.equals("commit")) {
                    consumer.commitSync();
                    say("committed");
                } else if (command.startsWith("seek ")) {
                    String[] words = command.split(" ");
                    consumer.seek(new TopicPartition(topic, Integer.parseInt(words[1])), Long.parseLong(words[2]));
                    say("sought");
                }
            }
        }
        say("left");
    }

    private static Properties properties(String[] args) {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", args[1]);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("fetch.max.wait.ms", "200");
        if (args[4].equals("consumer")) {
            p.put("group.protocol", "consumer");
            if (!args[5].equals("-")) {
                p.put("group.remote.assignor", args[5]);
            }
        } else {
            p.put("session.timeout.ms", args[7]);
            p.put("heartbeat.interval.ms", "500");
            p.put("partition.assignment.strategy", args[5].equals("range")
                ? "org.apache.kafka.clients.consumer.RangeAssignor"
                : "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        }
        if (!args[6].equals("-")) {
            p.put("group.instance.id", args[6]);
        }
        return p;
    }

    private static void read(LinkedBlockingQueue<String> commands) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                commands.add(line);
            }
        } catch (IOException e) {
            e.printStackTrace();
        }
        commands.add("leave");
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned" + numbers(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say("revoked" + numbers(partitions));
    }

    /** Not in the interface before Kafka 2.4. */
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        say("lost" + numbers(partitions));
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        StringBuilder out = new StringBuilder();
        for (TopicPartition p : partitions) {
            out.append(' ').append(p.partition());
        }
        return out.toString();
    }

    private void say(String line) {
        try {
            OUT.write((name + " " + line + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
