"""Transactional producers of kafka-python or confluent-kafka (librdkafka); internal/transactor/transactor.go says what it is
told. Usage: transactor.py kafka-python|confluent-kafka BOOTSTRAP"""

import os
import sys
import time
import traceback

LIBRARY, BOOTSTRAP = sys.argv[1:]
STALL_S = 30
END = "end"


def until_something(poll):
    """What poll returns once that is not nothing."""
    began = time.monotonic()
    while not (got := poll()):
        if time.monotonic() - began > STALL_S:
            raise TimeoutError("nothing came")
    return got


class KafkaPython:
    """producers are by name; inputs are consumers, with what is to be committed and as whom."""

    def __init__(self):
        import kafka

        self.kafka, self.producers, self.inputs = kafka, {}, {}

    def name(self, e):
        return type(e).__name__

    def producer(self, name, id, timeout_ms):
        self.producers[name] = self.kafka.KafkaProducer(
            bootstrap_servers=BOOTSTRAP, transactional_id=id, transaction_timeout_ms=int(timeout_ms)
        )
        self.producers[name].init_transactions()

    def begin(self, name):
        self.producers[name].begin_transaction()

    def send(self, name, topic, partition, *values):
        sent = [self.producers[name].send(topic, v.encode(), partition=int(partition)) for v in values]
        self.producers[name].flush()
        for future in sent:
            future.get(timeout=STALL_S)

    def offsets(self, name, consumer):
        _, offsets, member = self.inputs[consumer]
        self.producers[name].send_offsets_to_transaction(offsets, member)

    def commit(self, name):
        self.producers[name].commit_transaction()

    def abort(self, name):
        self.producers[name].abort_transaction()

    def consumer(self, name, group, topic, protocol):
        consumer = self.kafka.KafkaConsumer(
            topic,
            bootstrap_servers=BOOTSTRAP,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=3000,
            heartbeat_interval_ms=500,
        )
        self.inputs[name] = [consumer, {}, None]

    def poll(self, name):
        consumer, offsets, _ = self.inputs[name]
        # Long, as member.py says: a short poll of kafka-python may lose the assignment.
        got = until_something(lambda: consumer.poll(timeout_ms=2000, max_records=10))
        records = [m for batch in got.values() for m in batch]
        for m in records:
            offsets[self.kafka.TopicPartition(m.topic, m.partition)] = self.kafka.OffsetAndMetadata(m.offset + 1, "", -1)
        self.inputs[name][2] = consumer.group_metadata()
        return [(m.partition, m.value) for m in records]

    def close(self, name):
        self.inputs[name][0].close(autocommit=False)

    def reader(self, topic, partitions, isolation):
        consumer = self.kafka.KafkaConsumer(
            bootstrap_servers=BOOTSTRAP, group_id=None, enable_auto_commit=False, isolation_level="read_" + isolation
        )
        assigned = [self.kafka.TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)

        def poll():
            return [(m.partition, m.value) for batch in consumer.poll(timeout_ms=200).values() for m in batch]

        return poll, consumer.close


class ConfluentKafka:
    def __init__(self):
        import confluent_kafka

        self.kafka, self.producers, self.inputs = confluent_kafka, {}, {}

    def name(self, e):
        return e.args[0].name() if isinstance(e, self.kafka.KafkaException) else type(e).__name__

    def producer(self, name, id, timeout_ms):
        self.producers[name] = self.kafka.Producer(
            {"bootstrap.servers": BOOTSTRAP, "transactional.id": id, "transaction.timeout.ms": int(timeout_ms)}
        )
        self.producers[name].init_transactions(STALL_S)

    def begin(self, name):
        self.producers[name].begin_transaction()

    def send(self, name, topic, partition, *values):
        faults = []

        def delivered(err, _):
            if err is not None:
                faults.append(err)

        for v in values:
            self.producers[name].produce(topic, v.encode(), partition=int(partition), on_delivery=delivered)
        if self.producers[name].flush(STALL_S) > 0:
            raise TimeoutError("not all records were delivered")
        if faults:
            raise self.kafka.KafkaException(faults[0])

    def offsets(self, name, consumer):
        _, offsets, member = self.inputs[consumer]
        self.producers[name].send_offsets_to_transaction(list(offsets.values()), member, STALL_S)

    def commit(self, name):
        self.producers[name].commit_transaction(STALL_S)

    def abort(self, name):
        self.producers[name].abort_transaction(STALL_S)

    def consumer(self, name, group, topic, protocol):
        config = {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "group.protocol": protocol,
        }
        if protocol == "classic":
            config |= {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500}
        self.inputs[name] = [self.kafka.Consumer(config), {}, None]
        self.inputs[name][0].subscribe([topic])

    def poll(self, name):
        consumer, offsets, _ = self.inputs[name]
        got = until_something(lambda: consumer.consume(10, 0.2))
        for m in got:
            if m.error() is not None:
                raise self.kafka.KafkaException(m.error())
            offsets[m.partition()] = self.kafka.TopicPartition(m.topic(), m.partition(), m.offset() + 1)
        self.inputs[name][2] = consumer.consumer_group_metadata()
        return [(m.partition(), m.value()) for m in got]

    def close(self, name):
        self.inputs[name][0].close()

    def reader(self, topic, partitions, isolation):
        consumer = self.kafka.Consumer(
            {
                "bootstrap.servers": BOOTSTRAP,
                "group.id": "reader",  # asked for, not used: partitions are assigned
                "enable.auto.commit": False,
                "isolation.level": "read_" + isolation,
            }
        )
        consumer.assign([self.kafka.TopicPartition(topic, p, 0) for p in range(partitions)])

        def poll():
            got = consumer.consume(500, 0.2)
            for m in got:
                if m.error() is not None:
                    raise self.kafka.KafkaException(m.error())
            return [(m.partition(), m.value()) for m in got]

        return poll, consumer.close


def read(client, topic, partitions, isolation):
    poll, close = client.reader(topic, int(partitions), isolation)
    records, ended = [], 0
    while ended < int(partitions):
        got = until_something(poll)
        records += got
        ended += sum(value == END.encode() for _, value in got)
    close()
    return records


def main():
    client = {"kafka-python": KafkaPython, "confluent-kafka": ConfluentKafka}[LIBRARY]()
    for line in sys.stdin:
        command, *words = line.split()
        try:
            records = read(client, *words) if command == "read" else getattr(client, command)(*words)
            answer = "ok" + "".join(f" {partition}:{value.decode()}" for partition, value in records or ())
        except Exception as e:  # every fault is the test's to judge
            traceback.print_exc()
            answer = f"error {client.name(e)} {e!r}".replace("\n", " ")
        print(answer, flush=True)


main()
os._exit(0)  # the clients have threads that nobody told to end
