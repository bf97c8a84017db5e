"""An assignor for Cauce in Python: deals the partitions of each topic in turn to the members that subscribe to it."""

from plugin import log, serve

import assignor_pb2
import assignor_pb2_grpc
import catalog_pb2


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


if __name__ == "__main__":
    offer = catalog_pb2.Offer(kind=catalog_pb2.KIND_ASSIGNOR, name="python-turns", version="1.0.0", doc="Deals partitions to members in turn, in Python.")
    serve([offer], lambda server: assignor_pb2_grpc.add_AssignorServicer_to_server(Assignor(), server))
