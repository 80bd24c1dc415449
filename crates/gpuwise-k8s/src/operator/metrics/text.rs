//! What is counted, in the text form of Prometheus.

use super::{super::clock, Metrics};
use std::fmt::Write as _;

impl Metrics {
    pub(super) fn counted(&self, out: &mut String) {
        self.change(|all| {
            out.push_str("# HELP controller_runtime_reconcile_total Looks, by how they went.\n# TYPE controller_runtime_reconcile_total counter\n");
            for result in ["success", "error", "requeue_after"] {
                let count = all.results.get(result).copied().unwrap_or_default();
                let _ = writeln!(out, "controller_runtime_reconcile_total{{controller=\"pods\",result=\"{result}\"}} {count}");
            }
            let errors = all.results.get("error").copied().unwrap_or_default();
            let _ = write!(out, "# HELP controller_runtime_reconcile_errors_total Looks that failed.\n# TYPE controller_runtime_reconcile_errors_total counter\ncontroller_runtime_reconcile_errors_total{{controller=\"pods\"}} {errors}\n");
            out.push_str("# HELP rest_client_requests_total Writes, by method and status; 0: no answer.\n# TYPE rest_client_requests_total counter\n");
            for ((method, code), count) in &all.requests {
                let _ = writeln!(out, "rest_client_requests_total{{method=\"{method}\",code=\"{code}\"}} {count}");
            }
            out.push_str("# HELP gpuwise_operator_pods_waiting Pods that wait, by why.\n# TYPE gpuwise_operator_pods_waiting gauge\n");
            for (reason, count) in &all.waiting {
                let _ = writeln!(out, "gpuwise_operator_pods_waiting{{reason=\"{reason}\"}} {count}");
            }
            out.push_str("# HELP gpuwise_operator_workload_events_total What was said of workloads, by reason.\n# TYPE gpuwise_operator_workload_events_total counter\n");
            for (reason, count) in &all.told {
                let _ = writeln!(out, "gpuwise_operator_workload_events_total{{reason=\"{reason}\"}} {count}");
            }
            out.push_str("# HELP gpuwise_operator_workloads GpuWorkloads, by whether their SLO is kept.\n# TYPE gpuwise_operator_workloads gauge\n");
            for slo in ["True", "False", "Unknown"] {
                let count = all.slos.get(slo).copied().unwrap_or_default();
                let _ = writeln!(out, "gpuwise_operator_workloads{{slo_kept=\"{slo}\"}} {count}");
            }
            out.push_str("# HELP gpuwise_operator_workloads_cost_per_hour What the pods of GpuWorkloads hold, by the price book.\n# TYPE gpuwise_operator_workloads_cost_per_hour gauge\n");
            for (currency, cost) in &all.cost {
                let _ = writeln!(out, "gpuwise_operator_workloads_cost_per_hour{{currency=\"{currency}\"}} {cost}");
            }
            all.adopted.write(out, "gpuwise_operator_adopt_seconds", "From more replicas being wanted to a warm pod being one.");
            all.woken.write(out, "gpuwise_operator_wake_seconds", "What waking an engine that sleeps takes, before its pod becomes a replica.");
            out.push_str("# HELP gpuwise_operator_warm_pods Pods that are kept warm: wanted, ready, without a GPU since others have it, asleep.\n# TYPE gpuwise_operator_warm_pods gauge\n");
            for (state, count) in all.warm.iter().filter(|(state, _)| !state.is_empty()) {
                let _ = writeln!(out, "gpuwise_operator_warm_pods{{state=\"{state}\"}} {count}");
            }
            out.push_str("# HELP gpuwise_operator_cold_replicas_total Replicas that started from nothing though pods are kept warm, by why.\n# TYPE gpuwise_operator_cold_replicas_total counter\n");
            for (why, count) in ["lent", "none"].iter().zip(all.cold) {
                let _ = writeln!(out, "gpuwise_operator_cold_replicas_total{{why=\"{why}\"}} {count}");
            }
            out.push_str("# HELP gpuwise_operator_acts_total What disrupts, by what it is.\n# TYPE gpuwise_operator_acts_total counter\n");
            for what in ["evict", "lend", "move", "repartition", "cordon", "uncordon"] {
                let count = all.acts.get(what).copied().unwrap_or_default();
                let _ = writeln!(out, "gpuwise_operator_acts_total{{act=\"{what}\"}} {count}");
            }
            let by = [
                ("gpuwise_operator_definition_fields_missing", "Fields of this version that the cluster's definition of a kind does not keep.", &all.lacking),
                ("gpuwise_operator_objects_unreadable", "Objects of ours that cannot be read and do not count.", &all.unread),
            ];
            for (name, about, counts) in by {
                let _ = write!(out, "# HELP {name} {about}\n# TYPE {name} gauge\n");
                for (kind, count) in counts {
                    let _ = writeln!(out, "{name}{{kind=\"{kind}\"}} {count}");
                }
            }
            out.push_str("# HELP gpuwise_operator_watch_failing Watches that fail now, by resource.\n# TYPE gpuwise_operator_watch_failing gauge\n");
            for (resource, count) in &all.troubles {
                let _ = writeln!(out, "gpuwise_operator_watch_failing{{resource=\"{resource}\"}} {count}");
            }
            let skew = clock::skew();
            let _ = write!(out, "# HELP gpuwise_operator_clock_skew_seconds How far the API server's clock is ahead of this machine's; negative: behind.\n# TYPE gpuwise_operator_clock_skew_seconds gauge\ngpuwise_operator_clock_skew_seconds {skew}\n");
            all.looks.write(out, "controller_runtime_reconcile_time_seconds", "What a look takes, writes included.");
            all.decisions.write(out, "gpuwise_operator_decision_seconds", "What a decision takes, without reading and writing.");
            all.gated.write(out, "gpuwise_operator_gated_seconds", "From the gate put on to the gate taken off.");
            all.own.write(out, "gpuwise_operator_place_seconds", "From a watch's word of a gated pod to the write that takes the gate off.");
            all.writes.write(out, "rest_client_request_duration_seconds", "What a write takes.");
            all.reviews.write(out, "controller_runtime_webhook_latency_seconds", "What the webhook takes to answer.");
        });
    }
}
