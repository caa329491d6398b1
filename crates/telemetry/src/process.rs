//! Resource use of the process, by the names that every exporter has.

use dovetail_observability::metrics::MetricsPage;
use dovetail_observability::traces::TraceCounts;
use rustix::time::{ClockId, clock_gettime};

/// Writes the use of the process, and the counts of spans.
pub fn write(page: &mut MetricsPage, spans: TraceCounts) {
    if let Some(bytes) = resident() {
        page.gauge("process_resident_memory_bytes", "Memory that is resident");
        page.sample("process_resident_memory_bytes", &[], bytes);
    }
    let used = clock_gettime(ClockId::ProcessCPUTime);
    page.counter("process_cpu_seconds", "CPU time");
    page.sample("process_cpu_seconds_total", &[], used.tv_sec as f64 + used.tv_nsec as f64 / 1e9);
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        page.gauge("process_open_fds", "Open files");
        page.sample("process_open_fds", &[], open.count() as f64);
    }
    page.counter("dovetail_trace_spans", "Spans by outcome");
    let all = [
        ("exported", spans.exported),
        ("dropped", spans.dropped),
        ("failed", spans.failed),
        ("unsampled", spans.unsampled),
    ];
    for (outcome, count) in all {
        page.sample("dovetail_trace_spans_total", &[("outcome", outcome)], count as f64);
    }
}

fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}
