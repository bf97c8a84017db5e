"""An assignor for Cauce in Python: deals the partitions of each topic in turn to the members that subscribe to it.

serve() is all that a plugin in any language needs; see README.md.
"""

import json
import os
import sys
from concurrent import futures

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "generated"))
import assignor_pb2
import assignor_pb2_grpc
import catalog_pb2
import catalog_pb2_grpc

NAME, VERSION, DOC = "python-turns", "1.0.0", "Deals partitions to members in turn, in Python."


class Assignor(assignor_pb2_grpc.AssignorServicer):
    def Assign(self, request, context):
        log("info", "asked", group=request.group, members=len(request.members))
        subscribers = [[] for _ in request.topics]
        for number, member in enumerate(request.members):
            for topic in request.subscriptions[member.subscription].topics:
                subscribers[topic].append(number)
        gets = [assignor_pb2.MemberAssignment(member=number) for number in range(len(request.members))]
        for topic, members in enumerate(subscribers):
            count = request.topics[topic].partitions
            for turn, number in enumerate(members[:count]):
                gets[number].partitions.add(topic=topic, partitions=range(turn, count, len(members)))
        return assignor_pb2.AssignResponse(members=gets)


class Catalog(catalog_pb2_grpc.CatalogServicer):
    def Describe(self, request, context):
        offer = catalog_pb2.Offer(kind=catalog_pb2.KIND_ASSIGNOR, name=NAME, version=VERSION, doc=DOC)
        return catalog_pb2.DescribeResponse(offers=[offer])


def log(level, message, **fields):
    """Writes a line that appears in Cauce's log, with its level and fields."""
    print(json.dumps({"level": level, "msg": message, **fields}), file=sys.stderr, flush=True)


def health():
    """grpc.health.v1.Health/Check, answered with SERVING without the messages' code."""
    check = grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01")
    return grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})


def serve():
    if os.environ.get("CAUCE_PLUGIN") != "0b1c9e0e6f2e4f6b8d0a":
        print(f"This is a Cauce plugin, started by Cauce. It offers\n  {NAME} {VERSION}: {DOC}")
        return
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=[("grpc.max_receive_message_length", 64 << 20)])
    catalog_pb2_grpc.add_CatalogServicer_to_server(Catalog(), server)
    assignor_pb2_grpc.add_AssignorServicer_to_server(Assignor(), server)
    server.add_generic_rpc_handlers((health(),))
    socket = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin.sock")
    server.add_insecure_port("unix:" + socket)
    server.start()
    # go-plugin's protocol version, Cauce's, and where to call.
    print(f"1|1|unix|{socket}|grpc", flush=True)
    sys.stdin.read()  # ends when Cauce wants the plugin to end, or has ended itself
    os._exit(0)


if __name__ == "__main__":
    serve()
