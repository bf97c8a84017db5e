"""Connectors for Cauce in Python: a source that counts, and a sink that adds up what it is given."""

import json
import queue
import threading

from plugin import log, serve

import catalog_pb2
import connector_pb2 as pb
import connector_pb2_grpc
import data_pb2

SOURCE, SINK = "python-counter", "python-sum"


def key(name, type, default=None, doc="", **more):
    return pb.ConfigKey(name=name, type=type, required=default is None, default=default, importance="HIGH", doc=doc, **more)


KEYS = {
    SOURCE: [
        key("topic", "STRING", doc="The topic to write to.", rule=pb.ConfigRule(non_empty=True)),
        key("interval.ms", "LONG", "100", "Milliseconds from one number to the next.", rule=pb.ConfigRule(min=1)),
    ],
    SINK: [],
}

PARTITION = b'{"counter":"main"}'


def number_batch(topic, number):
    """A batch of one record. References to topics and schemas count from 1."""
    records = data_pb2.RecordBatch(
        topics=[topic],
        schemas=data_pb2.SchemaTable(schemas=[data_pb2.Schema(type=data_pb2.SCHEMA_TYPE_INT64)]),
        records=[data_pb2.Record(topic=1, value_schema=1, value=data_pb2.Value(int64=number))],
    )
    offset = json.dumps({"next": number + 1}).encode()
    return pb.SourceBatch(records=records.SerializeToString(), partitions=[PARTITION], partition_of=[1], offsets=[offset])


def numbers_of(batch):
    """The numbers among the values of an encoded batch."""
    for record in data_pb2.RecordBatch.FromString(batch).records:
        kind = record.value.WhichOneof("kind")
        if kind in ("int8", "int16", "int32", "int64", "float32", "float64"):
            yield getattr(record.value, kind)


class Connector(connector_pb2_grpc.ConnectorServicer):
    def Define(self, request, context):
        return pb.DefineResponse(keys=KEYS[request.connector])

    def Validate(self, request, context):
        return pb.ValidateResponse(exactly_once=request.connector == SOURCE)

    def TaskConfigs(self, request, context):
        return pb.TaskConfigsResponse(tasks=[pb.TaskConfig(config=request.config)])

    def AlterOffsets(self, request, context):
        return pb.AlterOffsetsResponse(handled=False)

    def Source(self, request_iterator, context):
        requests = queue.Queue()

        def take():
            try:
                for request in request_iterator:
                    requests.put(request)
            finally:
                requests.put(None)

        threading.Thread(target=take, daemon=True).start()
        config = requests.get().start.config
        yield pb.SourceAnswer(read_offsets=pb.ReadOffsets(question=1, partitions=[PARTITION]))
        answer = requests.get()
        if answer is None:
            return
        stored = answer.offsets.offsets[0]
        number = json.loads(stored)["next"] if stored else 0
        yield pb.SourceAnswer(started=pb.Started())
        polls, stopped = 0, False
        while True:
            waits = polls > 0 and not stopped
            try:
                request = requests.get(timeout=int(config.get("interval.ms", "100")) / 1000 if waits else None)
            except queue.Empty:
                yield pb.SourceAnswer(batch=number_batch(config["topic"], number))
                number, polls = number + 1, polls - 1
                continue
            if request is None:
                return
            kind = request.WhichOneof("request")
            polls += kind == "poll"
            stopped = stopped or kind == "stop_polling"

    def Sink(self, request_iterator, context):
        total = 0
        for request in request_iterator:
            kind = request.WhichOneof("request")
            if kind == "start":
                yield pb.SinkAnswer(started=pb.Started())
                continue
            done = pb.SinkDone()
            if kind == "put":
                total += sum(numbers_of(request.put.records))
                if request.put.more:
                    continue
            elif kind == "pre_commit":
                log("info", "added up", total=total)
                done.offsets.extend(request.pre_commit.offsets)
            yield pb.SinkAnswer(done=done)


if __name__ == "__main__":
    offers = [
        catalog_pb2.Offer(kind=catalog_pb2.KIND_SOURCE, name=SOURCE, version="1.0.0", doc="Counts, in Python."),
        catalog_pb2.Offer(kind=catalog_pb2.KIND_SINK, name=SINK, version="1.0.0", doc="Adds up numbers, in Python."),
    ]
    serve(offers, lambda server: connector_pb2_grpc.add_ConnectorServicer_to_server(Connector(), server))
