//! Jobs: so many pods at a time until so many have succeeded.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::{Value, json};

use super::template::{deleting, pod, to_i64, write_status};
use crate::cluster::cache::Key;
use crate::cluster::context::ClusterContext;
use crate::cluster::kind::Kind;
use crate::cluster::pod::{Phase, PodView, condition, set_condition};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// Makes pods, deletes what is too much, writes the status.
pub(crate) fn sync(ctx: &mut ClusterContext, key: &Key) {
    let Some(job) = ctx.cache.get(Kind::Job, key).cloned() else { return };
    if deleting(&job) || ended(&job) {
        return;
    }
    let pods = ctx.cache.pods_of(job["metadata"]["uid"].as_str().unwrap_or_default());
    let of = |phase| pods.iter().filter(|p| p.phase == phase).count();
    let (succeeded, failed) = (of(Phase::Succeeded), of(Phase::Failed));
    let mut active: Vec<Rc<PodView>> = pods.iter().filter(|p| p.active()).cloned().collect();
    let parallelism = count(&job, "parallelism").unwrap_or(1);
    let wanted = match count(&job, "completions") {
        Some(completions) => parallelism.min(completions.saturating_sub(succeeded)),
        // A work queue: once one has succeeded, no more are started.
        None if succeeded > 0 => active.len(),
        None => parallelism,
    };
    let wanted = if job["spec"]["suspend"] == true { 0 } else { wanted };
    let done = match count(&job, "completions") {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0 && active.is_empty(),
    };
    let too_many_failures = failed > count(&job, "backoffLimit").unwrap_or(6);
    if done || too_many_failures {
        active.iter().for_each(|p| ctx.kube.delete(Kind::Pod, &p.key, None));
        return finish(ctx, key, succeeded, failed, done);
    }
    while active.len() > wanted
        && let Some(pod) = active.pop()
    {
        ctx.kube.delete(Kind::Pod, &pod.key, None);
    }
    let missing = wanted.saturating_sub(active.len()).min(500);
    let indexes = free_indexes(ctx, &job, &pods, missing);
    let made =
        (0..missing).take_while(|at| create(ctx, key, &job, indexes.as_ref().and_then(|free| free.get(*at).copied())));
    let made = made.count();
    let ready = to_i64(active.iter().filter(|p| p.ready).count());
    report(
        ctx,
        key,
        &job,
        &[
            ("active", to_i64(active.len() + made)),
            ("ready", ready),
            ("succeeded", to_i64(succeeded)),
            ("failed", to_i64(failed)),
        ],
    );
}

fn count(job: &Value, field: &str) -> Option<usize> {
    job["spec"][field].as_u64().and_then(|n| usize::try_from(n).ok())
}

fn ended(job: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|c| condition(job, c).is_some_and(|c| c["status"] == "True"))
}

/// The first completion indexes that no pod has or has had success with, so many; none unless the Job is Indexed.
fn free_indexes(ctx: &ClusterContext, job: &Value, pods: &[Rc<PodView>], most: usize) -> Option<Vec<usize>> {
    if job["spec"]["completionMode"] != "Indexed" {
        return None;
    }
    let index = |pod: &Rc<PodView>| {
        let object = ctx.cache.get(Kind::Pod, &pod.key)?;
        object["metadata"]["annotations"][INDEX].as_str()?.parse::<usize>().ok()
    };
    let taken: BTreeSet<usize> =
        pods.iter().filter(|p| p.active() || p.phase == Phase::Succeeded).filter_map(index).collect();
    Some((0..count(job, "completions").unwrap_or(0)).filter(|i| !taken.contains(i)).take(most).collect())
}

/// Answers whether it was not refused.
fn create(ctx: &mut ClusterContext, key: &Key, job: &Value, index: Option<usize>) -> bool {
    let mut pod = pod(Kind::Job, job);
    for label in LABELS {
        pod["metadata"]["labels"][label] = json!(key.name);
    }
    pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = job["metadata"]["uid"].clone();
    pod["metadata"]["generateName"] = json!(format!("{}-", key.name));
    if let Some(index) = index {
        pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
        pod["metadata"]["labels"][INDEX] = json!(index.to_string());
        pod["metadata"]["generateName"] = json!(format!("{}-{index}-", key.name));
    }
    let made = ctx.kube.create(Kind::Pod, pod).is_ok();
    if !made {
        let work = crate::cluster::work::Work::Sync(Kind::Job, key.clone());
        ctx.queue.push_after(std::time::Duration::from_secs(1), work);
    }
    made
}

fn report(ctx: &mut ClusterContext, key: &Key, job: &Value, counts: &[(&str, i64)]) {
    let mut fields: Vec<(&str, Value)> = counts.iter().map(|(field, n)| (*field, json!(n))).collect();
    if job["status"]["startTime"].is_null() && job["spec"]["suspend"] != true {
        fields.push(("startTime", json!(ctx.now())));
    }
    write_status(ctx, Kind::Job, key, &fields);
}

fn finish(ctx: &mut ClusterContext, key: &Key, succeeded: usize, failed: usize, done: bool) {
    let now = ctx.now();
    ctx.kube.modify_status(Kind::Job, key, |job| {
        job["status"]["active"] = json!(0);
        job["status"]["ready"] = json!(0);
        job["status"]["succeeded"] = json!(succeeded);
        job["status"]["failed"] = json!(failed);
        if done {
            job["status"]["completionTime"] = json!(now);
            set_condition(
                job,
                "SuccessCriteriaMet",
                "True",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
                &now,
            );
            set_condition(
                job,
                "Complete",
                "True",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
                &now,
            );
        } else {
            let message = "Job has reached the specified backoff limit";
            set_condition(job, "FailureTarget", "True", "BackoffLimitExceeded", message, &now);
            set_condition(job, "Failed", "True", "BackoffLimitExceeded", message, &now);
        }
        true
    });
}
