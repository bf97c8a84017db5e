"""Two public clients of Connect's REST interface live through a connector each: client.py URL NAME FOLDER."""

import sys
import time

from kafka_connect import KafkaConnect
from kafka_connect_api.kafka_connect_api import Api, Cluster, Connector

url, name, folder = sys.argv[1:]
PATIENCE_SECONDS = 60


def until(what, done):
    """Waits until done() is true; requests may fail while the worker rebalances."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    seen = None
    while time.monotonic() < deadline:
        try:
            seen = done()
            if seen:
                return seen
        except Exception as e:
            seen = e
        time.sleep(0.1)
    raise SystemExit(f"not after {PATIENCE_SECONDS} s: {what}; at last {seen!r}")


def check(what, ok):
    if not ok:
        raise SystemExit(f"{what}: not so")


def with_kafka_connect_py():
    client, source = KafkaConnect(url), name + "-in"
    config = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "topic": name, "file": folder + "/in.txt", "tasks.max": "1"}
    check("cluster", set(client.get_cluster_info()) == {"version", "commit", "kafka_cluster_id"})
    check("plugins", config["connector.class"] in [p["class"] for p in client.list_connector_plugins()])
    valid = client.validate_connector_config("FileStreamSourceConnector", config | {"name": source})
    check("validation", valid["error_count"] == 0)

    def state():
        status = client.get_connector_status(source)
        return {status["connector"]["state"], *(t["state"] for t in status["tasks"])} if status["tasks"] else {status["connector"]["state"]}

    until("created", lambda: client.create_connector({"name": source, "config": config}))
    until("runs", lambda: state() == {"RUNNING"} and client.list_connector_tasks(source))
    check("listed", source in client.list_connectors() and source in client.list_connectors(expand="status", state="running"))
    check("configuration", client.get_connector_config(source) == config | {"name": source} == client.get_connector(source)["config"])
    until("updated", lambda: client.update_connector(source, config | {"batch.size": "10"}))
    until("updated configuration", lambda: client.get_connector_config(source)["batch.size"] == "10")
    client.pause_connector(source)
    until("paused", lambda: state() == {"PAUSED"})
    client.resume_connector(source)
    until("resumed", lambda: state() == {"RUNNING"})
    client.restart_connector(source)
    check("restart with tasks", client.restart_connector(source, include_tasks=True)["connector"]["state"] == "RESTARTING")
    until("restarted", lambda: state() == {"RUNNING"})
    client.restart_connector_task(source, 0)
    until("task restarted", lambda: client.get_connector_task_status(source, 0)["state"] == "RUNNING")
    until("topics", lambda: client.list_connector_topics(source)[source]["topics"] == [name])
    client.reset_connector_topics(source)
    client.stop_connector(source)
    until("stopped", lambda: state() == {"STOPPED"} and client.get_connector_status(source)["tasks"] == [])
    client.delete_connector(source)
    until("deleted", lambda: source not in client.list_connectors())


def with_kafka_connect_api():
    host, port = url.removeprefix("http://").split(":")
    cluster = Cluster(Api(hostname=host, port=int(port), protocol="http"))
    sink = Connector(cluster, name + "-out")
    check("cluster", cluster.version and cluster.kafka_cluster)
    check("not there", sink.name not in cluster.connectors)
    config = {"name": sink.name, "connector.class": "FileStreamSink", "topics": name, "file": folder + "/out.txt", "tasks.max": "2"}

    def create():
        sink.config = config
        return sink.name in cluster.connectors

    until("created", create)
    until("runs", lambda: sink.state == "RUNNING" and [t.is_running() for t in sink.tasks] == [True, True])
    check("listed", sink.name in cluster.connectors)
    check("configuration", sink.config == config)
    sink.pause()
    until("paused", lambda: sink.state == "PAUSED" and {t.state for t in sink.tasks} == {"PAUSED"})
    sink.resume()
    until("resumed", lambda: sink.state == "RUNNING" and {t.state for t in sink.tasks} == {"RUNNING"})
    sink.tasks[1].restart()
    until("restarted", lambda: {t.state for t in sink.tasks} == {"RUNNING"})
    check("loggers", "root" in cluster.loggers)
    sink.delete()
    until("deleted", lambda: sink.name not in cluster.connectors)


with_kafka_connect_py()
with_kafka_connect_api()
