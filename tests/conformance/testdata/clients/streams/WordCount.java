import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts words exactly once: a record for each word that comes, with the word as its key and how often it has come as its value.
 * Usage: WordCount BOOTSTRAP APPLICATION INPUT OUTPUT STATE_DIR; the command "run" is answered once partitions are assigned.
 */
public final class WordCount {
    private WordCount() {
    }

    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[2])
            .flatMap((key, line) -> Arrays.stream(line.split(" ")).map(word -> KeyValue.pair(word, word)).toList())
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
            .toStream().mapValues(String::valueOf)
            .to(args[3]);
        CountDownLatch running = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties(args));
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        while (in.readLine() != null) {
            streams.start();
            running.await();
            System.out.println("ok");
            System.out.flush();
        }
        streams.close();
    }

    private static Properties properties(String[] args) {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("application.id", args[1]);
        p.put("state.dir", args[4]);
        p.put("processing.guarantee", "exactly_once_v2");
        p.put("default.key.serde", Serdes.StringSerde.class.getName());
        p.put("default.value.serde", Serdes.StringSerde.class.getName());
        p.put("statestore.cache.max.bytes", "0");
        p.put("consumer.auto.offset.reset", "earliest");
        p.put("consumer.session.timeout.ms", "3000");
        p.put("consumer.heartbeat.interval.ms", "500");
        p.put("producer.transaction.timeout.ms", "5000");
        return p;
    }
}
