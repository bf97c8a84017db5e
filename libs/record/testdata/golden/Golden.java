import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

/** Writes the batches beside it with Apache Kafka's own client library; see README.md. */
public class Golden {
    static final long TIME = 1700000000000L;

    public static void main(String[] args) throws Exception {
        for (CompressionType type : CompressionType.values())
            write(type.name, batch(Compression.of(type).build(), type == CompressionType.NONE ? 10 : 200000));
        write("zstd-22", batch(Compression.zstd().level(22).build(), 200000));
        write("commit", marker(ControlRecordType.COMMIT));
        write("abort", marker(ControlRecordType.ABORT));
    }

    static MemoryRecords batch(Compression compression, int large) {
        MemoryRecordsBuilder b = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 20), (byte) 2, compression,
            TimestampType.CREATE_TIME, 0, RecordBatch.NO_TIMESTAMP, 4711, (short) 3, 42, true, false,
            RecordBatch.NO_PARTITION_LEADER_EPOCH, 1 << 20);
        Header[] none = new Header[0];
        b.append(TIME + 5, (byte[]) null, null, none);
        b.append(TIME, new byte[0], new byte[0], none);
        b.append(TIME + 100000, utf8("key"), utf8("value"), new Header[] {
            new RecordHeader("naïve", utf8("ja")), new RecordHeader("null", null), new RecordHeader("empty", new byte[0])});
        byte[] value = new byte[large];
        for (int i = 0; i < large; i++)
            value[i] = (byte) ('a' + i % 23);
        b.append(TIME - 3, utf8("large"), value, none);
        for (int i = 0; i < 100; i++)
            b.append(TIME + i, utf8("k" + i), utf8("value number " + i), none);
        return b.build();
    }

    static MemoryRecords marker(ControlRecordType type) {
        return MemoryRecords.withEndTransactionMarker(TIME, 4711, (short) 3, new EndTransactionMarker(type, 7));
    }

    static byte[] utf8(String s) { return s.getBytes(StandardCharsets.UTF_8); }

    static void write(String name, MemoryRecords records) throws Exception {
        byte[] b = new byte[records.buffer().remaining()];
        records.buffer().duplicate().get(b);
        try (FileOutputStream out = new FileOutputStream(name + ".batch")) { out.write(b); }
    }
}
