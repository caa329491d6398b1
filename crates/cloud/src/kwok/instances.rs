//! Nodes of kwok, from their launch to their end, at the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_api::names::provider::{KWOK_SCHEME, kwok_node};
use dovetail_api::names::tags;
use dovetail_core::Offering;
use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::node::{Choice, FAKE, InstanceRecord, RECORD, instance_of, launched, name_of, next_boot_id, node_of};
use super::{KwokCloud, Waiting};
use crate::cloud::{FoundInstances, Instance};
use crate::error::CloudError;
use crate::launch::filters::select;
use crate::launch::readiness::ready_status;
use crate::launch::{LaunchError, LaunchRequest, LaunchedFleet};

/// Nodes of one page of a list.
const PAGE: u32 = 500;
/// Requests to the API server at the same time.
const TOGETHER: usize = 16;
/// With more ids than this all Nodes are listed, instead of each being asked for.
const EACH: usize = 50;
/// Most Nodes that wait for their time; more launches are put off.
const MOST_WAITING: usize = 10_000;
/// Longest nodeRegistrationDelay: a claim whose Node has not come by then has been given up long ago.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);
/// Pauses before a Node is created anew whose creation failed: the first, and the number of times that it doubles.
const CREATED_AGAIN: (Duration, u32) = (Duration::from_secs(5), 6);

/// Answers of the API server that the same request gets again.
const FINAL: [u16; 7] = [400, 403, 404, 405, 413, 415, 422];

impl KwokCloud {
    /// Creates the Nodes of one launch, or keeps them until it is time.
    pub(super) async fn launch_nodes(&self, request: &LaunchRequest, count: u32) -> Result<LaunchedFleet, LaunchError> {
        ready_status(&request.node_class)?;
        let selection = select(request)?;
        let cheapest = |offerings: &[Offering]| offerings.iter().map(|one| one.price).fold(f64::INFINITY, f64::min);
        let first = selection.candidates.first().and_then(|one| {
            let price = cheapest(&one.offerings);
            Some((&*one.instance_type, one.offerings.iter().find(|offering| offering.price <= price)?))
        });
        let Some((instance_type, offering)) = first else {
            return Err(LaunchError::insufficient_capacity("no offering is left", Vec::new()));
        };
        let delay =
            self.registration_delay(&request.node_class.name_any()).await.map_err(|e| LaunchError::from_call(&e))?;
        let choice = Choice { instance_type, offering };
        let mut fleet = LaunchedFleet { instances: Vec::new(), refusals: Vec::new(), missing: None };
        for number in 0..count {
            let name = name_of(request, number);
            let node = node_of(request, &choice, &name, self.tags_of(request), self.clock.wall());
            match self.begin(node, delay).await {
                Ok(node) => fleet.instances.extend(launched(&node, offering.price)),
                // Nothing is lost: the rest of the launch is asked for again.
                Err(error) if fleet.instances.is_empty() => return Err(LaunchError::from_call(&error)),
                Err(error) => {
                    fleet.missing = Some(LaunchError::from_call(&error));
                    break;
                }
            }
        }
        Ok(fleet)
    }

    /// The Node, created or waiting; of a launch that was made before, as it was made then.
    async fn begin(&self, node: Node, delay: Duration) -> Result<Node, CloudError> {
        if delay.is_zero() {
            return self.create(&node).await;
        }
        let name = node.name_any();
        let there = self.waiting().get(&name).map(|one| one.node.clone());
        if let Some(there) = there {
            return Ok(there);
        }
        if let Some(there) = self.nodes.get_opt(&name).await.map_err(|why| failed("get", why))? {
            return Ok(there);
        }
        // A Node that the API server will not have is no launch, now as little as later.
        let trial = PostParams { dry_run: true, ..PostParams::default() };
        match self.nodes.create(&trial, &node).await {
            Ok(_) => {}
            // It is there, or a webhook knows no trials.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 409) => {}
            Err(why) => return Err(failed("try to create", why)),
        }
        let mut waiting = self.waiting();
        if waiting.len() >= MOST_WAITING {
            let message = format!("{MOST_WAITING} Nodes wait for their nodeRegistrationDelay");
            return Err(CloudError::Retryable { call: "CreateNode", code: "TooManyWaiting".into(), message });
        }
        let due = self.clock.monotonic().saturating_add(delay.min(LONGEST_DELAY));
        let node = waiting.entry(name).or_insert(Waiting { node, due, failures: 0 }).node.clone();
        drop(waiting);
        self.news.notify_one();
        Ok(node)
    }

    /// Creates a Node; one of its name that the same launch has made is it.
    async fn create(&self, node: &Node) -> Result<Node, CloudError> {
        match self.nodes.create(&PostParams::default(), node).await {
            Ok(node) => Ok(node),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.nodes.get(&node.name_any()).await.map_err(|why| failed("get", why))
            }
            Err(why) => Err(failed("create", why)),
        }
    }

    /// Creates the Nodes that have waited, each at its time. Ends never; it is the leader's, and ends with its term.
    pub async fn create_when_due(self) {
        loop {
            let now = self.clock.monotonic();
            let due: Vec<String> = {
                let waiting = self.waiting();
                waiting.iter().filter(|(_, one)| one.due <= now).map(|(name, _)| name.clone()).collect()
            };
            let (mut failures, mut last) = (0_u32, None);
            for name in due {
                if let Err(error) = self.create_waiting(&name).await {
                    failures += 1;
                    last = Some((name, error));
                }
            }
            if let Some((node, error)) = last {
                tracing::warn!(logger = "kwok", node, failures, %error, "a Node, or several, are not created yet");
            }
            // One that has failed waits for its pause.
            let next = self.waiting().values().map(|one| one.due).min();
            let pause = next.map_or(LONGEST_DELAY, |next| next.saturating_sub(self.clock.monotonic()));
            tokio::select! {
                biased;
                () = self.news.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Creates a Node if it still waits. Whatever was asked of its instance meanwhile is done to the Node.
    async fn create_waiting(&self, name: &str) -> Result<(), CloudError> {
        let Some(node) = self.waiting().get(name).map(|one| one.node.clone()) else { return Ok(()) };
        let created = match self.create(&node).await {
            Ok(created) => created,
            Err(error) => {
                let now = self.clock.monotonic();
                self.waiting().entry(name.to_owned()).and_modify(|one| {
                    one.due = now.saturating_add(pause_after(one.failures));
                    one.failures = one.failures.saturating_add(1);
                });
                return Err(error);
            }
        };
        let waited = self.waiting().remove(name);
        match waited.map(|one| InstanceRecord::from_node(&one.node)) {
            None => self.end(&format!("{KWOK_SCHEME}{name}")).await,
            Some(Some(record)) if InstanceRecord::from_node(&node).as_ref() != Some(&record) => {
                self.write_record(name, created.metadata.uid.as_deref(), &record).await
            }
            Some(_) => Ok(()),
        }
    }

    async fn registration_delay(&self, class: &str) -> Result<Duration, CloudError> {
        let class = self.classes.get_opt(class).await.map_err(|why| failed("get KWOKNodeClass", why))?;
        let delay = class.and_then(|class| class.spec.node_registration_delay);
        Ok(delay.map(|delay| delay.get()).unwrap_or_default())
    }

    /// Tags of an instance, by which it is known whose it is.
    fn tags_of(&self, request: &LaunchRequest) -> BTreeMap<String, String> {
        let own = &self.settings;
        [
            (tags::owned_by(&own.cluster_name), tags::OWNED.to_owned()),
            (tags::CLUSTER_UID.to_owned(), own.cluster_uid.clone()),
            (tags::NODE_POOL.to_owned(), request.node_pool.clone()),
            (tags::NODE_CLASS.to_owned(), request.node_class.name_any()),
            (tags::LAUNCH_TOKEN.to_owned(), request.token.clone()),
        ]
        .into()
    }

    pub(super) fn is_ours(&self, instance: &Instance) -> bool {
        let uid = instance.tags.get(tags::CLUSTER_UID);
        !self.settings.cluster_uid.is_empty() && uid == Some(&self.settings.cluster_uid)
    }

    /// All instances, those that wait among them; of one launch only if there is a token.
    pub(super) async fn list(&self, token: &str) -> Result<Vec<Instance>, CloudError> {
        let selector = match token {
            "" => format!("{}={}", FAKE.0, FAKE.1),
            token => format!("{}={token}", tags::LAUNCH_TOKEN),
        };
        let mut params = ListParams::default().labels(&selector).limit(PAGE);
        let mut found = BTreeMap::new();
        let carries =
            |one: &Instance| token.is_empty() || one.tags.get(tags::LAUNCH_TOKEN).is_some_and(|own| own == token);
        let waiting: Vec<Instance> = self.waiting().values().filter_map(|one| instance_of(&one.node)).collect();
        found.extend(waiting.into_iter().map(|one| (one.id.clone(), one)));
        loop {
            let page = self.nodes.list(&params).await.map_err(|why| failed("list", why))?;
            found.extend(page.items.iter().filter_map(instance_of).map(|one| (one.id.clone(), one)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found.into_values().filter(carries).collect()),
            }
        }
    }

    /// The instance of that id; none where no Node of this provider's is there.
    pub(super) async fn find(&self, id: &str) -> Result<Option<Instance>, CloudError> {
        let Some(name) = kwok_node(id) else { return Ok(None) };
        if let Some(there) = self.waiting().get(name) {
            return Ok(instance_of(&there.node));
        }
        let node = self.nodes.get_opt(name).await.map_err(|why| failed("get", why))?;
        Ok(node.as_ref().and_then(instance_of).filter(|one| one.id == id))
    }

    pub(super) async fn find_all(&self, ids: &[String]) -> Result<FoundInstances, CloudError> {
        let mut found = FoundInstances::default();
        let mut take = |id: &str, there: Option<Instance>| match there {
            Some(instance) => found.instances.push(instance),
            None => drop(found.missing.insert(id.to_owned())),
        };
        if ids.len() > EACH {
            let mut all: BTreeMap<_, _> = self.list("").await?.into_iter().map(|one| (one.id.clone(), one)).collect();
            ids.iter().for_each(|id| take(id, all.remove(id)));
            return Ok(found);
        }
        let asking = stream::iter(ids.to_vec()).map(|id| async move { (self.find(&id).await, id) });
        let mut asked = asking.buffer_unordered(TOGETHER);
        while let Some((there, id)) = asked.next().await {
            take(&id, there?);
        }
        drop(asked);
        Ok(found)
    }

    /// Ends instances: marks their Nodes, and deletes them. Answers what failed, by id.
    pub(super) async fn end_all(&self, found: &[Instance]) -> BTreeMap<String, CloudError> {
        let ours: Vec<String> = found.iter().filter(|one| self.is_ours(one)).map(|one| one.id.clone()).collect();
        let mut ending =
            stream::iter(ours).map(|id| async move { (self.end(&id).await, id) }).buffer_unordered(TOGETHER);
        let mut failures = BTreeMap::new();
        while let Some((ended, id)) = ending.next().await {
            failures.extend(ended.err().map(|error| (id, error)));
        }
        failures
    }

    async fn end(&self, id: &str) -> Result<(), CloudError> {
        let Some(name) = kwok_node(id) else { return Ok(()) };
        self.waiting().remove(name);
        let Some(there) = self.nodes.get_opt(name).await.map_err(|why| failed("get", why))? else { return Ok(()) };
        let Some(record) = InstanceRecord::from_node(&there) else { return Ok(()) };
        let uid = there.metadata.uid.clone();
        self.write_record(name, uid.as_deref(), &record.ended(self.clock.wall())).await?;
        if there.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.nodes.delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(why) => Err(failed("delete", why)),
        }
    }

    /// Restarts an instance, as far as it can be seen: its Node gets another boot ID. Asked again for the same reboot it is the same.
    pub(super) async fn restart(&self, id: &str) -> Result<(), CloudError> {
        let missing = || CloudError::invalid("RebootNode", "InvalidInstanceID.NotFound", format!("there is no {id}"));
        let name = kwok_node(id).ok_or_else(missing)?;
        let there = self.nodes.get_opt(name).await.map_err(|why| failed("get", why))?.ok_or_else(missing)?;
        InstanceRecord::from_node(&there).ok_or_else(missing)?;
        let info = json!({"nodeInfo": {"bootID": next_boot_id(&there)}});
        let patch = json!({"metadata": {"uid": there.metadata.uid}, "status": info});
        match self.nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            Err(why) => Err(failed("patch", why)),
        }
    }

    /// Puts tags on an instance, beside those that it has.
    pub(super) async fn put_tags(&self, id: &str, more: &BTreeMap<String, String>) -> Result<(), CloudError> {
        let missing = || CloudError::invalid("TagNode", "InvalidInstanceID.NotFound", format!("there is no {id}"));
        let name = kwok_node(id).ok_or_else(missing)?;
        let extend = |mut record: InstanceRecord| {
            record.tags.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            record
        };
        if let Some(waiting) = self.waiting().get_mut(name)
            && let Some(record) = InstanceRecord::from_node(&waiting.node)
        {
            waiting.node.annotations_mut().insert(RECORD.to_owned(), extend(record).text());
            return Ok(());
        }
        let there = self.nodes.get_opt(name).await.map_err(|why| failed("get", why))?.ok_or_else(missing)?;
        let record = InstanceRecord::from_node(&there).ok_or_else(missing)?;
        self.write_record(name, there.metadata.uid.as_deref(), &extend(record)).await
    }

    async fn write_record(&self, name: &str, uid: Option<&str>, record: &InstanceRecord) -> Result<(), CloudError> {
        let patch = json!({"metadata": {"uid": uid, "annotations": {RECORD: record.text()}}});
        match self.nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            // The Node is gone, or another has its name.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(why) => Err(failed("patch", why)),
        }
    }
}

/// Pause before a creation that has failed so often before.
fn pause_after(failures: u32) -> Duration {
    let (first, doublings) = CREATED_AGAIN;
    first.saturating_mul(1 << failures.min(doublings))
}

/// A request to the API server that failed, as a call to a cloud. A Node whose creation nobody answered may be there.
fn failed(what: &'static str, why: kube::Error) -> CloudError {
    let call = match what {
        "create" | "try to create" => "CreateNode",
        "delete" => "DeleteNode",
        "list" => "ListNodes",
        "patch" => "PatchNode",
        "get" => "GetNode",
        _ => "GetKWOKNodeClass",
    };
    let (code, message) = match why {
        kube::Error::Api(status) if FINAL.contains(&status.code) => {
            let hint = if status.code == 403 { "; the chart's settings.provider=kwok allows it" } else { "" };
            let message = format!("{}{hint}", status.message);
            return CloudError::Final { call, code: status.reason, message };
        }
        // Credentials that are renewed, a list that has to begin anew, too many requests: nothing was done.
        kube::Error::Api(status) if matches!(status.code, 400..=499) => {
            return CloudError::Retryable { call, code: status.reason, message: status.message };
        }
        kube::Error::Api(status) => (status.reason, status.message),
        other => ("NotReached".to_owned(), other.to_string()),
    };
    match what {
        "create" => CloudError::MayHaveHappened { call, code, message },
        _ => CloudError::Retryable { call, code, message },
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_what_stays_refused_fails_a_launch_for_good() {
        let of = |what, code| {
            let status = Status::failure("no", "Reason").with_code(code);
            failed(what, kube::Error::Api(status.boxed()))
        };
        for code in FINAL {
            assert!(matches!(of("create", code), CloudError::Final { .. }), "{code}");
        }
        for code in [401, 408, 409, 410, 429] {
            assert!(matches!(of("create", code), CloudError::Retryable { .. }), "{code}");
            assert!(matches!(of("list", code), CloudError::Retryable { .. }), "{code}");
        }
        assert!(matches!(of("create", 500), CloudError::MayHaveHappened { .. }));
        assert!(matches!(of("try to create", 500), CloudError::Retryable { .. }), "it was a trial");
        assert!(matches!(of("list", 504), CloudError::Retryable { .. }));
    }

    #[test]
    fn pauses_double_to_five_minutes() {
        assert_eq!([0, 1, 5, 6, u32::MAX].map(|failures| pause_after(failures).as_secs()), [5, 10, 160, 320, 320]);
    }
}
