package main

// Rates are taken over $__rate_interval, which Grafana fits to the scrape interval.

// process are the panels that every program has.
func process(instances string) row {
	return row{"Processes", []panel{
		{title: "Memory", doc: "Resident memory of each program.", unit: "bytes",
			queries: one(`process_resident_memory_bytes{instance=~"`+instances+`"}`, "{{instance}}")},
		{title: "Processor", doc: "Cores that each program keeps busy.",
			queries: one(`rate(process_cpu_seconds_total{instance=~"`+instances+`"}[$__rate_interval])`, "{{instance}}")},
		{title: "Open files", doc: "Files and connections; the limit is process_max_fds.",
			queries: one(`process_open_fds{instance=~"`+instances+`"}`, "{{instance}}")},
		{title: "Goroutines", doc: "Grows for ever when something leaks.",
			queries: one(`go_goroutines{instance=~"`+instances+`"}`, "{{instance}}")},
	}}
}

var cluster = dashboard{title: "cluster", rows: []row{
	{"Health", []panel{
		{title: "Active controllers", doc: "Exactly one, or there is no quorum.", stat: true, bad: 2, queries: one(`sum(kafka_controller_kafkacontroller_activecontrollercount)`, "")},
		{title: "Programs down", doc: "Targets that Prometheus cannot reach.", stat: true, bad: 1, queries: one(`count(up{job=~"controller|broker|groupcoord|txncoord|connect"} == 0) or vector(0)`, "")},
		{title: "Nodes fenced", doc: "Registered, but not heard of.", stat: true, bad: 1, queries: one(`max(kafka_controller_kafkacontroller_fencedbrokercount)`, "")},
		{title: "Offline partitions", doc: "Without a leader: nobody can write or read them.", stat: true, bad: 1, queries: one(`max(kafka_controller_kafkacontroller_offlinepartitionscount)`, "")},
		{title: "Under min ISR", doc: "Refuse acks=all now.", stat: true, bad: 1, queries: one(`sum(kafka_server_replicamanager_underminisrpartitioncount)`, "")},
		{title: "Under-replicated", doc: "Fewer replicas in sync than there should be; worry when it stays.", stat: true, bad: 1, queries: one(`sum(kafka_server_replicamanager_underreplicatedpartitions)`, "")},
		{title: "Nodes", doc: "Registered and not fenced, coordinators included.", stat: true, queries: one(`max(kafka_controller_kafkacontroller_activebrokercount)`, "")},
		{title: "Topics", stat: true, queries: one(`max(kafka_controller_kafkacontroller_globaltopiccount)`, "")},
		{title: "Partitions", stat: true, queries: one(`max(kafka_controller_kafkacontroller_globalpartitioncount)`, "")},
		{title: "Not led by the preferred replica", doc: "Leadership is unevenly spread until it is moved back.", stat: true, queries: one(`max(kafka_controller_kafkacontroller_preferredreplicaimbalancecount)`, "")},
		{title: "Failed log directories", doc: "Their partitions answer KAFKA_STORAGE_ERROR.", stat: true, bad: 1, queries: one(`sum(kafka_log_logmanager_offlinelogdirectorycount)`, "")},
		{title: "Stored", doc: "Bytes of all logs, replicas included.", unit: "bytes", stat: true, queries: one(`sum(kafka_log_log_size)`, "")},
	}},
	{"Traffic", []panel{
		{title: "Records in", doc: "Appended by producers, by topic.", unit: "cps", queries: one(`topk(10, sum by (topic) (rate(kafka_server_brokertopicmetrics_messagesin_total[$__rate_interval])))`, "{{topic}}")},
		{title: "Bytes in", doc: "Appended by producers, by broker.", unit: "Bps", queries: one(`sum by (instance) (rate(kafka_server_brokertopicmetrics_bytesin_total[$__rate_interval]))`, "{{instance}}")},
		{title: "Bytes out", doc: "Sent to consumers and followers, by broker.", unit: "Bps", queries: one(`sum by (instance) (rate(kafka_server_brokertopicmetrics_bytesout_total[$__rate_interval]))`, "{{instance}}")},
		{title: "Produce and consumers' fetches, p99", doc: "From received to answered. A consumer that waits for records makes a long fetch.", unit: "ms", queries: []query{
			{`max by (instance) (kafka_network_requestmetrics_totaltimems{request="Produce", quantile="0.99"})`, "Produce {{instance}}"},
			{`max by (instance) (kafka_network_requestmetrics_totaltimems{request="FetchConsumer", quantile="0.99"})`, "FetchConsumer {{instance}}"}}},
	}},
	{"Replication", []panel{
		{title: "Replicas in sync lost and found", doc: "Shrinks and expands in waves are flapping: look at the network, the disk, pauses.", unit: "cps", queries: []query{
			{`sum by (instance) (rate(kafka_server_replicamanager_isrshrinks_total[$__rate_interval]))`, "lost {{instance}}"},
			{`sum by (instance) (rate(kafka_server_replicamanager_isrexpands_total[$__rate_interval]))`, "found {{instance}}"}}},
		{title: "Followers' lag", doc: "Most committed records that a broker lacks of a partition it follows.", queries: one(`kafka_server_replicafetchermanager_maxlag`, "{{instance}}")},
	}},
	process(".*"),
}}

var broker = dashboard{title: "broker", pick: "kafka_server_replicamanager_partitioncount", rows: []row{
	{"Requests", []panel{
		{title: "Requests", unit: "reqps", queries: one(`sum by (request) (rate(kafka_network_requestmetrics_requests_total{instance=~"$instance"}[$__rate_interval]))`, "{{request}}")},
		{title: "Produce, p99 by phase", doc: "Remote is the wait for followers (acks=all): slow replicas. Local is the append: the disk.", unit: "ms", queries: []query{
			{`max(kafka_network_requestmetrics_requestqueuetimems{request="Produce", quantile="0.99", instance=~"$instance"})`, "queue"},
			{`max(kafka_network_requestmetrics_localtimems{request="Produce", quantile="0.99", instance=~"$instance"})`, "local"},
			{`max(kafka_network_requestmetrics_remotetimems{request="Produce", quantile="0.99", instance=~"$instance"})`, "remote"},
			{`max(kafka_network_requestmetrics_responsesendtimems{request="Produce", quantile="0.99", instance=~"$instance"})`, "send"}}},
		{title: "Consumers' fetches, p99 by phase", doc: "Remote is the wait for records. Local and send are the reading: old records come from the disk.", unit: "ms", queries: []query{
			{`max(kafka_network_requestmetrics_requestqueuetimems{request="FetchConsumer", quantile="0.99", instance=~"$instance"})`, "queue"},
			{`max(kafka_network_requestmetrics_localtimems{request="FetchConsumer", quantile="0.99", instance=~"$instance"})`, "local"},
			{`max(kafka_network_requestmetrics_remotetimems{request="FetchConsumer", quantile="0.99", instance=~"$instance"})`, "remote"},
			{`max(kafka_network_requestmetrics_responsesendtimems{request="FetchConsumer", quantile="0.99", instance=~"$instance"})`, "send"}}},
		{title: "Followers' fetches, p99", unit: "ms", queries: one(`max by (instance) (kafka_network_requestmetrics_totaltimems{request="FetchFollower", quantile="0.99", instance=~"$instance"})`, "{{instance}}")},
		{title: "Refused", doc: "Appends and reads of a partition that were answered with an error.", unit: "cps", queries: []query{
			{`sum by (topic) (rate(kafka_server_brokertopicmetrics_failedproducerequests_total{instance=~"$instance"}[$__rate_interval]))`, "produce {{topic}}"},
			{`sum by (topic) (rate(kafka_server_brokertopicmetrics_failedfetchrequests_total{instance=~"$instance"}[$__rate_interval]))`, "fetch {{topic}}"}}},
		{title: "Request bytes held", doc: "In memory at once; the bound is queued.max.request.bytes.", unit: "bytes", queries: one(`kafka_network_socketserver_memorypoolused{instance=~"$instance"}`, "{{instance}}")},
	}},
	{"Partitions", []panel{
		{title: "Led", doc: "Uneven means that leadership should be moved back.", queries: one(`kafka_server_replicamanager_leadercount{instance=~"$instance"}`, "{{instance}}")},
		{title: "Hosted", queries: one(`kafka_server_replicamanager_partitioncount{instance=~"$instance"}`, "{{instance}}")},
		{title: "Out of sync", queries: []query{
			{`kafka_server_replicamanager_underreplicatedpartitions{instance=~"$instance"}`, "under-replicated {{instance}}"},
			{`kafka_server_replicamanager_underminisrpartitioncount{instance=~"$instance"}`, "under min ISR {{instance}}"},
			{`kafka_server_replicamanager_offlinereplicacount{instance=~"$instance"}`, "offline {{instance}}"}}},
		{title: "Hottest partitions", doc: "Records in by partition: one far above the others of its topic has a hot key.", unit: "cps",
			queries: one(`topk(10, max by (topic, partition) (rate(kafka_log_log_logendoffset{topic!~"__.*", instance=~"$instance"}[$__rate_interval])))`, "{{topic}}-{{partition}}")},
		{title: "Stored", unit: "bytes", queries: one(`topk(10, sum by (topic) (kafka_log_log_size{instance=~"$instance"}))`, "{{topic}}")},
		{title: "Segments", queries: one(`topk(10, sum by (topic) (kafka_log_log_numlogsegments{instance=~"$instance"}))`, "{{topic}}")},
	}},
	{"Compaction", []panel{
		{title: "Greatest share to compact", doc: "Of one log; it is compacted above min.cleanable.dirty.ratio.", unit: "percent", queries: one(`kafka_log_logcleanermanager_max_dirty_percent{instance=~"$instance"}`, "{{instance}}")},
		{title: "Logs that cannot be compacted", doc: "They grow for ever; the broker's log says why.", queries: one(`kafka_log_logcleanermanager_uncleanable_partitions_count{instance=~"$instance"}`, "{{instance}}")},
	}},
	{"Connections", []panel{
		{title: "Open", queries: one(`sum by (instance, listener) (kafka_server_socket_server_metrics_connection_count{instance=~"$instance"})`, "{{instance}} {{listener}}")},
		{title: "Opened", doc: "A client that connects for each request shows here.", unit: "cps", queries: one(`sum by (instance, listener) (rate(kafka_server_socket_server_metrics_connection_creation_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}} {{listener}}")},
		{title: "Closed over a fault", unit: "cps", queries: []query{
			{`rate(kafka_network_socketserver_failedconnections_total{instance=~"$instance"}[$__rate_interval])`, "bad request {{instance}}"},
			{`rate(kafka_network_socketserver_refusedconnections_total{instance=~"$instance"}[$__rate_interval])`, "too many {{instance}}"}}},
		{title: "Fetch sessions", doc: "Evictions mean that there are more consumers than max.incremental.fetch.session.cache.slots.", queries: []query{
			{`kafka_server_fetchsessioncache_numincrementalfetchsessions{instance=~"$instance"}`, "kept {{instance}}"},
			{`rate(kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total{instance=~"$instance"}[$__rate_interval])`, "evicted per second {{instance}}"}}},
	}},
	process("$instance"),
}}

var groups = dashboard{title: "groups", pick: "kafka_server_group_coordinator_metrics_num_partitions", rows: []row{
	{"Lag", []panel{
		{title: "Groups by status", doc: "How groups come along, by the trend of their lag and not its size. A group that was just taken over is judged after ten looks.",
			queries: one(`count by (status) (max by (consumergroup, status) (cauce_consumergroup_status{instance=~"$instance"}))`, "{{status}}")},
		{title: "Groups that are not well", doc: "WARNING falls behind, STALLED commits nothing while records come; the rest names the cause. cauce group why GROUP has the evidence.",
			queries: one(`max by (consumergroup, status) (cauce_consumergroup_status{status!="OK", instance=~"$instance"}) or vector(0)`, "{{consumergroup}} {{status}}")},
		{title: "Lag in time", doc: "How long ago the first record that is not consumed yet was written, in a group's worst partition: what the business asks.", unit: "s",
			queries: one(`topk(10, max by (consumergroup) (kafka_consumergroup_lag_seconds{instance=~"$instance"}))`, "{{consumergroup}}")},
		{title: "Lag in records", doc: "Steady lag is a matter of size; growing lag is an incident.",
			queries: one(`topk(10, sum by (consumergroup) (max by (consumergroup, topic, partition) (kafka_consumergroup_lag{instance=~"$instance"})))`, "{{consumergroup}}")},
		{title: "Lag grows", doc: "Records per second by which the lag of a group grows; what shrinks is not drawn.", unit: "cps",
			queries: one(`topk(10, sum by (consumergroup) (max by (consumergroup, topic, partition) (cauce_consumergroup_lag_trend{instance=~"$instance"})))`, "{{consumergroup}}")},
		{title: "Partitions furthest behind", doc: "One far behind the others of its group: a hot key, a poison record, or an owner that is not well.", unit: "s",
			queries: one(`topk(10, max by (consumergroup, topic, partition) (kafka_consumergroup_lag_seconds{instance=~"$instance"}))`, "{{consumergroup}} {{topic}}-{{partition}}")},
		{title: "Members", doc: "A group without members that should have some: its application is down.",
			queries: one(`topk(10, max by (consumergroup) (kafka_consumergroup_members{instance=~"$instance"}))`, "{{consumergroup}}")},
		{title: "Without lag metrics", doc: "Groups and offsets beyond group.lag.max.partitions.",
			queries: one(`cauce_consumergroup_unwatched{instance=~"$instance"}`, "{{instance}}")},
	}},
	{"Coordinators", []panel{
		{title: "Shards", doc: "Partitions of __consumer_offsets by what their owner does with them. Loading for long, or failed, means groups without a coordinator.",
			queries: one(`sum by (state) (kafka_server_group_coordinator_metrics_num_partitions{instance=~"$instance"})`, "{{state}}")},
		{title: "Shards owned", queries: one(`kafka_server_group_coordinator_metrics_num_partitions{state="active", instance=~"$instance"}`, "{{instance}}")},
		{title: "Requests of members", unit: "reqps", queries: one(`sum by (request) (rate(kafka_network_requestmetrics_requests_total{job="groupcoord", instance=~"$instance"}[$__rate_interval]))`, "{{request}}")},
		{title: "Requests, p99", doc: "JoinGroup and SyncGroup wait for the other members; that is no fault.", unit: "ms",
			queries: one(`max by (request) (kafka_network_requestmetrics_totaltimems{job="groupcoord", quantile="0.99", request!~"JoinGroup|SyncGroup", instance=~"$instance"})`, "{{request}}")},
		{title: "Commit to the log, p99", doc: "What brokers take to acknowledge a batch of a coordinator's records.", unit: "s",
			queries: one(`histogram_quantile(0.99, sum by (le) (rate(kafka_server_group_coordinator_metrics_batch_flush_time_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`, "p99")},
		{title: "Appends refused", doc: "A few while leadership moves; many mean that __consumer_offsets cannot be written.", unit: "cps",
			queries: one(`rate(kafka_server_group_coordinator_metrics_append_failures_total{instance=~"$instance"}[$__rate_interval])`, "{{instance}}")},
	}},
	{"Rebalances", []panel{
		{title: "Classic groups that enter a state", doc: "PreparingRebalance again and again without end is a rebalance loop: members are too slow between polls (max.poll.interval.ms) or come and go.", unit: "cps",
			queries: one(`sum by (state) (rate(cauce_group_classic_transitions_total{instance=~"$instance"}[$__rate_interval]))`, "{{state}}")},
		{title: "Joins and leaves", unit: "reqps", queries: one(`sum by (request) (rate(kafka_network_requestmetrics_requests_total{request=~"JoinGroup|SyncGroup|LeaveGroup|ConsumerGroupHeartbeat", job="groupcoord", instance=~"$instance"}[$__rate_interval]))`, "{{request}}")},
	}},
	process("$instance"),
}}

var transactions = dashboard{title: "transactions", pick: "cauce_transactions", rows: []row{
	{"Transactions", []panel{
		{title: "Transactional ids by state", doc: "Ongoing is open; PrepareCommit and PrepareAbort are decided and wait for their markers.",
			queries: one(`sum by (state) (cauce_transactions{instance=~"$instance"})`, "{{state}}")},
		{title: "Ends", doc: "Timeouts are producers that died or hang; fenced ones were replaced by a newer process.", unit: "cps",
			queries: one(`sum by (reason) (rate(cauce_transaction_ends_total{instance=~"$instance"}[$__rate_interval]))`, "{{reason}}")},
		{title: "Oldest", doc: "An open transaction holds the last stable offset of its partitions: readers of committed records wait behind it.", unit: "s",
			queries: one(`max by (phase) (cauce_transaction_oldest_seconds{instance=~"$instance"})`, "{{phase}}")},
		{title: "Markers to write", doc: "Grows while a partition of a decided transaction cannot be written.", queries: []query{
			{`sum(cauce_transaction_marker_backlog_transactions{instance=~"$instance"})`, "transactions"},
			{`sum(cauce_transaction_marker_backlog_partitions{instance=~"$instance"})`, "partitions"}}},
		{title: "Requests of producers", unit: "reqps", queries: one(`sum by (request) (rate(kafka_network_requestmetrics_requests_total{job="txncoord", instance=~"$instance"}[$__rate_interval]))`, "{{request}}")},
		{title: "Requests, p99", unit: "ms", queries: one(`max by (request) (kafka_network_requestmetrics_totaltimems{job="txncoord", quantile="0.99", instance=~"$instance"})`, "{{request}}")},
	}},
	process("$instance"),
}}

var controllers = dashboard{title: "controllers", pick: "kafka_controller_kafkacontroller_activecontrollercount", rows: []row{
	{"Quorum", []panel{
		{title: "Active", queries: one(`kafka_controller_kafkacontroller_activecontrollercount{instance=~"$instance"}`, "{{instance}}")},
		{title: "Term", doc: "Each election makes it grow.", queries: one(`kafka_server_raft_metrics_current_epoch{instance=~"$instance"}`, "{{instance}}")},
		{title: "Metadata behind", doc: "Records of the metadata log that a program has not applied yet.",
			queries: one(`scalar(max(kafka_controller_kafkacontroller_lastappliedrecordoffset)) - (kafka_controller_kafkacontroller_lastappliedrecordoffset or kafka_server_broker_metadata_metrics_last_applied_record_offset)`, "{{instance}}")},
		{title: "Metadata changes", unit: "cps", queries: one(`max(rate(kafka_controller_kafkacontroller_lastappliedrecordoffset{instance=~"$instance"}[$__rate_interval]))`, "records")},
	}},
	{"Decisions", []panel{
		{title: "Requests", unit: "reqps", queries: one(`sum by (instance) (rate(kafka_controller_controllereventmanager_eventqueueprocessingtimems_count{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}")},
		{title: "Wait and work, p99", unit: "ms", queries: []query{
			{`histogram_quantile(0.99, sum by (le) (rate(kafka_controller_controllereventmanager_eventqueuetimems_bucket{instance=~"$instance"}[$__rate_interval])))`, "wait"},
			{`histogram_quantile(0.99, sum by (le) (rate(kafka_controller_controllereventmanager_eventqueueprocessingtimems_bucket{instance=~"$instance"}[$__rate_interval])))`, "work"}}},
		{title: "Nodes fenced", unit: "cps", queries: []query{
			{`rate(kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount{instance=~"$instance"}[$__rate_interval])`, "silent {{instance}}"},
			{`rate(cauce_controller_gone_nodes_total{instance=~"$instance"}[$__rate_interval])`, "ended {{instance}}"}}},
		{title: "Faults", doc: "Decisions that failed by a fault of the program, unclean elections, messages given up.", queries: []query{
			{`kafka_controller_kafkacontroller_metadataerrorcount{instance=~"$instance"}`, "errors {{instance}}"},
			{`kafka_controller_controllerstats_uncleanleaderelections_total{instance=~"$instance"}`, "unclean elections {{instance}}"},
			{`cauce_controller_dropped_messages_total{instance=~"$instance"}`, "messages dropped {{instance}}"}}},
	}},
	process("$instance"),
}}

var plugins = dashboard{title: "plugins", pick: "cauce_plugin_calls_total", rows: []row{
	{"Calls", []panel{
		{title: "Calls by outcome", doc: "Anything but ok: the group keeps the assignment it has.", unit: "cps", queries: one(`sum by (kind, plugin, outcome) (rate(cauce_plugin_calls_total{instance=~"$instance"}[$__rate_interval]))`, "{{kind}} {{plugin}} {{outcome}}")},
		{title: "Time of a call, p99", unit: "s", queries: one(`histogram_quantile(0.99, sum by (le, plugin) (rate(cauce_plugin_call_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`, "{{plugin}}")},
		{title: "Time of an assignment, p99", doc: "From the question to the answer taken or refused.", unit: "s", queries: one(`histogram_quantile(0.99, sum by (le, assignor) (rate(cauce_group_assignment_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`, "{{assignor}}")},
		{title: "Restarts and failed assignments", doc: "Processes that ended and were started again, and questions without a usable answer, since the start of the program.", queries: []query{
			{`sum by (file) (cauce_plugin_restarts_total{instance=~"$instance"}) or vector(0)`, "restarts {{file}}"},
			{`sum by (assignor) (cauce_group_assignment_failures_total{instance=~"$instance"}) or vector(0)`, "failures {{assignor}}"}}},
	}},
}}
