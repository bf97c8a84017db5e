"""Uses librdkafka through confluent-kafka.

librdkafka.py produce BOOTSTRAP TOPIC COUNT                      has the values 0 to COUNT-1 acknowledged
librdkafka.py consume BOOTSTRAP TOPIC COUNT GROUP PROTOCOL ASSIGNOR    prints COUNT values and commits; ASSIGNOR is the
                                                                 server's of the protocol consumer, - for its first
"""

import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer

WITHIN_S = 60
COMMAND, BOOTSTRAP, TOPIC, COUNT = sys.argv[1:5]


def produce():
    failed = []
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "acks": "all", "enable.idempotence": True, "compression.type": "zstd"})
    for i in range(int(COUNT)):
        producer.produce(TOPIC, key=str(i), value=str(i), on_delivery=lambda error, _: error and failed.append(error))
    left = producer.flush(WITHIN_S)
    if left or failed:
        sys.exit(f"{left} records are left, {len(failed)} failed: {failed[:1]}")


def consume(group, protocol, assignor):
    config = {"bootstrap.servers": BOOTSTRAP, "group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    if assignor != "-":
        config["group.remote.assignor"] = assignor
    consumer = Consumer(config)
    consumer.subscribe([TOPIC])
    end, left = time.monotonic() + WITHIN_S, int(COUNT)
    while left:
        if time.monotonic() > end:
            sys.exit(f"{left} records are missing after {WITHIN_S} s")
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        print(message.value().decode())
        left -= 1
    consumer.commit(asynchronous=False)
    consumer.close()


produce() if COMMAND == "produce" else consume(*sys.argv[5:8])
