package main

var connect = dashboard{title: "connect", pick: "kafka_connect_connect_worker_metrics_task_count", rows: []row{
	{"Health", []panel{
		{title: "Workers", stat: true, queries: one(`count(kafka_connect_connect_worker_metrics_task_count{instance=~"$instance"})`, "")},
		{title: "Connectors", stat: true, queries: one(`sum(kafka_connect_connect_worker_metrics_connector_count{instance=~"$instance"})`, "")},
		{title: "Tasks", stat: true, queries: one(`sum(kafka_connect_connect_worker_metrics_task_count{instance=~"$instance"})`, "")},
		{title: "Failed", doc: "Connectors and tasks that stand still until somebody restarts them; cauce connector status NAME says why.", stat: true, bad: 1,
			queries: one(`sum({__name__=~"kafka_connect_connector(_task)?_metrics_status", status="failed", instance=~"$instance"}) or vector(0)`, "")},
		{title: "Leaders", doc: "One for each group of workers; without one nothing can be configured.", stat: true, queries: one(`sum(kafka_connect_connect_worker_rebalance_metrics_leader{instance=~"$instance"})`, "")},
		{title: "Records left out, 1 h", doc: "Records that failed and were skipped (errors.tolerance=all), dead letters included.", stat: true, bad: 1,
			queries: one(`sum(increase(kafka_connect_task_error_metrics_total_records_skipped{instance=~"$instance"}[1h])) or vector(0)`, "")},
		{title: "Tasks by state", doc: "What workers say of the tasks that they have.", queries: one(`sum by (status) (kafka_connect_connector_task_metrics_status{instance=~"$instance"})`, "{{status}}")},
		{title: "Tasks by worker", doc: "Spread evenly, but while a worker that left is waited for.", queries: one(`kafka_connect_connect_worker_metrics_task_count{instance=~"$instance"}`, "{{instance}}")},
	}},
	{"Sources", []panel{
		{title: "Records written", doc: "To topics, by connector.", unit: "cps", queries: one(`sum by (connector) (rate(kafka_connect_source_task_metrics_source_record_write_total{instance=~"$instance"}[$__rate_interval]))`, "{{connector}}")},
		{title: "Records polled and not stored", doc: "Grows when brokers do not keep up, or cannot be reached.", queries: one(`sum by (connector) (kafka_connect_source_task_metrics_source_record_active_count{instance=~"$instance"})`, "{{connector}}")},
		{title: "Wait for a batch, mean", doc: "How long the source took to have records; long where there is nothing new.", unit: "ms", queries: one(
			`sum by (connector) (rate(kafka_connect_source_task_metrics_poll_batch_time_ns_total{instance=~"$instance"}[$__rate_interval])) / sum by (connector) (rate(kafka_connect_source_task_metrics_poll_batch_total{instance=~"$instance"}[$__rate_interval])) / 1e6`, "{{connector}}")},
		{title: "Offsets stored and not stored", doc: "What was done since the last time is done again after a crash.", unit: "cps", queries: []query{
			{`sum by (connector) (rate(kafka_connect_source_task_metrics_offset_commit_success_total{instance=~"$instance"}[$__rate_interval]))`, "{{connector}}"},
			{`sum by (connector) (rate(kafka_connect_source_task_metrics_offset_commit_failure_total{instance=~"$instance"}[$__rate_interval]))`, "failed {{connector}}"}}},
	}},
	{"Sinks", []panel{
		{title: "Records put", doc: "Into the other system, by connector.", unit: "cps", queries: one(`sum by (connector) (rate(kafka_connect_sink_task_metrics_sink_record_send_total{instance=~"$instance"}[$__rate_interval]))`, "{{connector}}")},
		{title: "Lag", doc: "Records that the consumer groups connect-NAME have not committed, of all workers.", queries: one(`sum by (consumergroup) (kafka_consumergroup_lag{consumergroup=~"connect-.+"}) or vector(0)`, "{{consumergroup}}")},
		{title: "Time of a put, mean", doc: "What the other system takes for a batch: where a sink that lags spends its time.", unit: "ms", queries: one(
			`sum by (connector) (rate(kafka_connect_sink_task_metrics_put_batch_time_ns_total{instance=~"$instance"}[$__rate_interval])) / sum by (connector) (rate(kafka_connect_sink_task_metrics_put_batch_total{instance=~"$instance"}[$__rate_interval])) / 1e6`, "{{connector}}")},
		{title: "Offsets committed and not committed", doc: "Failures in a row: the coordinator, or what the sink says is safe.", unit: "cps", queries: []query{
			{`sum by (connector) (rate(kafka_connect_sink_task_metrics_offset_commit_completion_total{instance=~"$instance"}[$__rate_interval]))`, "{{connector}}"},
			{`sum by (connector) (rate(kafka_connect_sink_task_metrics_offset_commit_skip_total{instance=~"$instance"}[$__rate_interval]))`, "failed {{connector}}"}}},
	}},
	{"Records that fail", []panel{
		{title: "Failures", doc: "Attempts that failed, and retries among them.", unit: "cps", queries: []query{
			{`sum by (connector) (rate(kafka_connect_task_error_metrics_total_record_failures{instance=~"$instance"}[$__rate_interval]))`, "{{connector}}"},
			{`sum by (connector) (rate(kafka_connect_task_error_metrics_total_retries{instance=~"$instance"}[$__rate_interval]))`, "retries {{connector}}"}}},
		{title: "Dead letters", doc: "Records given to dead letter queues, and those that the queues did not take.", unit: "cps", queries: []query{
			{`sum by (connector) (rate(kafka_connect_task_error_metrics_deadletterqueue_produce_requests{instance=~"$instance"}[$__rate_interval]))`, "{{connector}}"},
			{`sum by (connector) (rate(kafka_connect_task_error_metrics_deadletterqueue_produce_failures{instance=~"$instance"}[$__rate_interval]))`, "not taken {{connector}}"}}},
	}},
	{"Group", []panel{
		{title: "Rebalances", doc: "A few for each change of connectors or workers; again and again is a loop.", unit: "cps", queries: one(`rate(kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total{instance=~"$instance"}[$__rate_interval])`, "{{instance}}")},
		{title: "Connectors' processes", doc: "Starts of programs in place of those that have ended.", queries: one(`sum by (file) (cauce_plugin_restarts_total{instance=~"$instance"}) or vector(0)`, "{{file}}")},
	}},
}}
