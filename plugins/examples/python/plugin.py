"""What a plugin in Python needs to be started and called by Cauce; see README.md."""

import json
import os
import sys
from concurrent import futures

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "generated"))
import catalog_pb2
import catalog_pb2_grpc


class Catalog(catalog_pb2_grpc.CatalogServicer):
    def __init__(self, offers):
        self.offers = offers

    def Describe(self, request, context):
        return catalog_pb2.DescribeResponse(offers=self.offers)


def log(level, message, **fields):
    """Writes a line that appears in Cauce's log, with its level and fields."""
    print(json.dumps({"level": level, "msg": message, **fields}), file=sys.stderr, flush=True)


def health():
    """grpc.health.v1.Health/Check, answered with SERVING without the messages' code."""
    check = grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01")
    return grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})


def serve(offers, add_services):
    """Serves what is offered until Cauce ends it. add_services adds the services of its kinds to a gRPC server."""
    if os.environ.get("CAUCE_PLUGIN") != "0b1c9e0e6f2e4f6b8d0a":
        print("This is a Cauce plugin, started by Cauce. It offers")
        for o in offers:
            print(f"  {o.name} {o.version}: {o.doc}")
        return
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=[("grpc.max_receive_message_length", 64 << 20)])
    catalog_pb2_grpc.add_CatalogServicer_to_server(Catalog(offers), server)
    add_services(server)
    server.add_generic_rpc_handlers((health(),))
    socket = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin.sock")
    server.add_insecure_port("unix:" + socket)
    server.start()
    # go-plugin's protocol version, Cauce's, and where to call.
    print(f"1|1|unix|{socket}|grpc", flush=True)
    sys.stdin.read()  # ends when Cauce wants the plugin to end, or has ended itself
    os._exit(0)
