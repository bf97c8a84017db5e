"""A member of a group that runs kafka-python or confluent-kafka (librdkafka); internal/member/member.go says how it
speaks. Usage: member.py kafka-python|confluent-kafka BOOTSTRAP GROUP TOPIC MEMBER PROTOCOL STRATEGY INSTANCE SESSION_MS"""

import os
import queue
import sys
import threading
import traceback

HEARTBEAT_MS = 500
LIBRARY, BOOTSTRAP, GROUP, TOPIC, NAME, PROTOCOL, STRATEGY, INSTANCE, SESSION_MS = sys.argv[1:]


def say(*words):
    os.write(1, (" ".join(map(str, (NAME, *words))) + "\n").encode())


class KafkaPython:
    def __init__(self):
        import kafka
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        member = self

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, partitions):
                say("assigned", *(p.partition for p in partitions))
                if partitions:
                    member.timeout_ms = 50

            def on_partitions_revoked(self, partitions):
                say("revoked", *(p.partition for p in partitions))

            def on_partitions_lost(self, partitions):
                say("lost", *(p.partition for p in partitions))

        assignors = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
        self.kafka = kafka
        # A first join that knows no partitions yet is followed by another once the topic's metadata is there. Should a poll
        # time out while that one is under way, kafka-python 3.0.12 never takes its result (join_group_async asks need_rejoin
        # before it looks for the join it has begun), and the member stays without partitions. So a poll lasts until then.
        self.timeout_ms = 2000
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=BOOTSTRAP,
            group_id=GROUP,
            group_instance_id=None if INSTANCE == "-" else INSTANCE,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=int(SESSION_MS),
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=200,
            partition_assignment_strategy=[assignors[STRATEGY]],
        )
        self.consumer.subscribe([TOPIC], listener=Listener())

    def poll(self):
        for batch in self.consumer.poll(timeout_ms=self.timeout_ms).values():
            for m in batch:
                say("record", m.partition, m.offset)

    def commit(self):
        self.consumer.commit()

    def seek(self, partition, offset):
        self.consumer.seek(self.kafka.TopicPartition(TOPIC, partition), offset)

    def close(self):
        self.consumer.close(autocommit=False)


class ConfluentKafka:
    def __init__(self):
        import confluent_kafka

        self.kafka = confluent_kafka
        config = {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 200,
            "group.protocol": PROTOCOL,
        }
        if INSTANCE != "-":
            config["group.instance.id"] = INSTANCE
        if PROTOCOL == "classic":
            config["session.timeout.ms"] = int(SESSION_MS)
            config["heartbeat.interval.ms"] = HEARTBEAT_MS
            config["partition.assignment.strategy"] = STRATEGY
        self.incremental = PROTOCOL == "consumer" or STRATEGY == "cooperative-sticky"
        self.consumer = confluent_kafka.Consumer(config)
        self.consumer.subscribe([TOPIC], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost)

    def assigned(self, consumer, partitions):
        say("assigned", *(p.partition for p in partitions))
        (consumer.incremental_assign if self.incremental else consumer.assign)(partitions)

    def revoked(self, consumer, partitions):
        say("revoked", *(p.partition for p in partitions))
        self.unassign(consumer, partitions)

    def lost(self, consumer, partitions):
        say("lost", *(p.partition for p in partitions))
        self.unassign(consumer, partitions)

    def unassign(self, consumer, partitions):
        if self.incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def poll(self):
        for m in self.consumer.consume(500, 0.05):
            if m.error() is not None:
                raise RuntimeError(m.error())
            say("record", m.partition(), m.offset())

    def commit(self):
        try:
            self.consumer.commit(asynchronous=False)
        except self.kafka.KafkaException as e:
            if e.args[0].code() != self.kafka.KafkaError._NO_OFFSET:  # nothing new was read
                raise

    def seek(self, partition, offset):
        self.consumer.seek(self.kafka.TopicPartition(TOPIC, partition, offset))

    def close(self):
        self.consumer.close()


def read(commands):
    for line in sys.stdin:
        commands.put(line.split())
    commands.put(["leave"])


def main():
    commands = queue.Queue()
    threading.Thread(target=read, args=(commands,), daemon=True).start()
    client = {"kafka-python": KafkaPython, "confluent-kafka": ConfluentKafka}[LIBRARY]()
    while True:
        client.poll()
        try:
            command, *rest = commands.get_nowait()
        except queue.Empty:
            continue
        if command == "leave":
            break
        if command == "commit":
            client.commit()
            say("committed")
        elif command == "seek":
            client.seek(*map(int, rest))
            say("sought")
    client.close()
    say("left")


try:
    main()
except Exception as e:  # every fault is the test's to report
    traceback.print_exc()
    say("error", repr(e).replace("\n", " "))
    os._exit(1)
os._exit(0)  # the thread that reads stdin has no end of its own
