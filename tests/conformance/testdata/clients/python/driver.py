"""Conformance driver for kafka-python and for confluent-kafka (librdkafka); the workload is defined in
internal/workload/workload.go. Usage: driver.py kafka-python|confluent-kafka BOOTSTRAP"""

import hashlib
import struct
import sys
import time
import traceback

POOL_SIZE = 1_200_000
BIG_VALUE_SIZE = 1_000_000
STALL_S = 20
WORDS = [
    w.encode("latin-1")
    for w in (
        "the ", "quick ", "brown ", "fox ", "jumps ", "over ", "lazy ", "dog ",
        "stream", "record", "offset", "leader", "replica", "broker", "topic", "segment",
        "\x00", "\xff\xfe", "\n", "\r\n", "\t", '"', "\\", "\xc3\xa9",
        "\xe6\x97\xa5\xe6\x9c\xac", "\x00\x00\x00\x00", "0123456789", '{"a":1}', ",", "=",
        "\x7f\x80", "\xf0\x9f\x98\x80",
    )
]


def draws(s):
    while True:
        s ^= (s << 13) & 0xFFFFFFFF
        s ^= s >> 17
        s ^= (s << 5) & 0xFFFFFFFF
        yield s


def make_pool():
    parts, size, random = [], 0, draws(2463534242)
    while size < POOL_SIZE:
        word = WORDS[next(random) & 31]
        parts.append(word)
        size += len(word)
    return b"".join(parts)[:POOL_SIZE]


POOL = make_pool()


def cut(start, size):
    return POOL[start : start + size]


def record(i):
    """Key, value, headers and timestamp of record i."""
    random = draws((i + 1) * 2654435761 & 0xFFFFFFFF)
    r1, r2, r3, r4, r5, r6 = (next(random) for _ in range(6))
    key = b"key-%d" % (r1 % 1000)
    if i % 10 == 3:
        key = None
    elif i % 10 == 7:
        key = b""
    if i % 20 == 5 or i % 30 == 13:
        value = None
    elif i % 20 == 11:
        value = b""
    elif i % 12_500 == 2_500:
        value = cut(r2 % 200_000, BIG_VALUE_SIZE)
    else:
        value = cut(r2 % 1_000_000, 1 + r3 % 600)
    headers, count = [], r4 % 4
    for j in range(count):
        m = (r5 >> (3 * j)) & 7
        v = None
        if m == 1:
            v = b""
        elif m > 1:
            v = cut(((r6 + 37 * j) & 0xFFFFFFFF) % 1_000_000, 1 + (r5 >> (8 + j)) % 40)
        headers.append(("h1" if count == 3 and j == 2 else "h%d" % j, v))
    return key, value, headers, 1_700_000_000_000 + i


def framed(b):
    return struct.pack(">i", -1) if b is None else struct.pack(">i", len(b)) + b


class PartitionDigest:
    """SHA-256 over one partition; refuses an offset that does not follow the one before."""

    def __init__(self, partition):
        self.partition, self.due, self.sha = partition, 0, hashlib.sha256()

    def add(self, offset, timestamp, key, value, headers):
        if offset != self.due:
            raise ValueError(f"partition {self.partition}: offset {offset} came where {self.due} was due")
        self.due += 1
        parts = [struct.pack(">qq", offset, timestamp), framed(key), framed(value), struct.pack(">i", len(headers))]
        for k, v in headers:
            parts += (framed(k.encode()), framed(v))
        self.sha.update(b"".join(parts))

    def result(self):
        return f"{self.due}:{self.sha.hexdigest()}"


def collect(partitions, records, poll):
    """Digest what poll yields as (partition, offset, timestamp, key, value, headers) until all records came."""
    digests = [PartitionDigest(p) for p in range(partitions)]
    read, last = 0, time.monotonic()
    while read < records:
        for partition, *rest in poll():
            digests[partition].add(*rest)
            read += 1
            last = time.monotonic()
        if time.monotonic() - last > STALL_S:
            raise TimeoutError(f"stalled after {read} of {records} records")
    return "".join(" " + d.result() for d in digests)


class KafkaPython:
    def __init__(self, bootstrap):
        import kafka

        self.kafka, self.bootstrap = kafka, bootstrap

    def create(self, topic, partitions):
        admin = self.kafka.KafkaAdminClient(bootstrap_servers=self.bootstrap)
        spec = {"num_partitions": partitions, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        admin.create_topics({topic: spec}, wait_for_metadata=True)
        admin.close()
        return ""

    def produce(self, topic, partitions, records, codec, acks):
        producer = self.kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            max_in_flight_requests_per_connection=5 if acks == "all" else 1,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            max_block_ms=60_000,
        )
        sent = []
        for i in range(records):
            key, value, headers, ts = record(i)
            headers = [(k, v or b"") for k, v in headers]  # kafka-python cannot write a null header value,
            if key is None and value is None:
                value = b""  # nor a record without key and value
            sent.append(producer.send(topic, value, key, headers, i % partitions, ts))
        producer.flush()
        for future in sent:
            future.get(timeout=60)
        producer.close()
        return ""

    def consume(self, topic, partitions, records):
        consumer = self.kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=None, enable_auto_commit=False, max_partition_fetch_bytes=4 << 20
        )
        assigned = [self.kafka.TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)

        def poll():
            for batch in consumer.poll(timeout_ms=1000, max_records=5000).values():
                for m in batch:
                    yield m.partition, m.offset, m.timestamp, m.key, m.value, m.headers

        result = collect(partitions, records, poll)
        consumer.close()
        return result


class ConfluentKafka:
    def __init__(self, bootstrap):
        import confluent_kafka
        import confluent_kafka.admin

        self.kafka, self.bootstrap = confluent_kafka, bootstrap

    def create(self, topic, partitions):
        admin = self.kafka.admin.AdminClient({"bootstrap.servers": self.bootstrap})
        spec = self.kafka.admin.NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
        admin.create_topics([spec])[topic].result(60)
        return ""

    def produce(self, topic, partitions, records, codec, acks):
        producer = self.kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": acks,
                "enable.idempotence": acks == "all",
                "compression.type": codec,
                "linger.ms": 5,
                "message.max.bytes": 1_048_576,
                "queue.buffering.max.messages": 1_000_000,
                "max.in.flight.requests.per.connection": 5 if acks == "all" else 1,
            }
        )
        faults = []

        def delivered(err, _):
            if err is not None:
                faults.append(err)

        for i in range(records):
            key, value, headers, ts = record(i)
            producer.produce(
                topic, value, key, partition=i % partitions, on_delivery=delivered, timestamp=ts, headers=headers
            )
            producer.poll(0)
        left = producer.flush(120)
        if faults or left:
            raise RuntimeError(f"{len(faults)} records failed, first {faults[:1]}; {left} without an answer")
        return ""

    def consume(self, topic, partitions, records):
        consumer = self.kafka.Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        )
        consumer.assign([self.kafka.TopicPartition(topic, p, 0) for p in range(partitions)])

        def poll():
            for m in consumer.consume(5000, 1.0):
                if m.error() is not None:
                    raise RuntimeError(m.error())
                yield m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or []

        result = collect(partitions, records, poll)
        consumer.close()
        return result


def main():
    clients = {"kafka-python": KafkaPython, "confluent-kafka": ConfluentKafka}
    client = clients[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        command, topic, partitions, *rest = line.split()
        try:
            if command == "create":
                answer = client.create(topic, int(partitions))
            elif command == "produce":
                answer = client.produce(topic, int(partitions), int(rest[0]), rest[1], rest[2])
            elif command == "consume":
                answer = client.consume(topic, int(partitions), int(rest[0]))
            else:
                raise ValueError(f"unknown command {command}")
            print("ok" + answer, flush=True)
        except Exception as e:  # every fault is the test's to report
            traceback.print_exc()
            print("error", repr(e).replace("\n", " "), flush=True)


main()
