//! The cloud as an actor has it: each of its answers is measured (core spec 7.1, `cloudprovider_*`), and what changes
//! something there continues only while the leadership holds, whatever it waits for on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::info::InstanceTypeInfo;
use dovetail_cloud::node_class::NodeClassResolution;
use dovetail_cloud::{
    Cloud, CloudError, CloudFuture, CloudIdentity, CloudInstances, CloudNodeClasses, CloudOfferings, CloudQueue,
    FoundInstances, Instance, LaunchError, LaunchErrorKind, LaunchPace, LaunchRequest, LaunchRoom, LaunchedFleet,
    LaunchedInstance, MadeResource, QueueMessage,
};
use dovetail_core::commitments::{AccountAnswer, Uses};
use dovetail_core::interruption::status::Trouble;
use dovetail_core::zonal_shift::ZoneShift;
use futures::future::BoxFuture;

use crate::context::env::Env;
use crate::context::leader_term::LeaderTerm;
use crate::telemetry::measure::Measure;

/// The cloud of one actor: `cloud` behind it, each answer counted and timed under the actor's name.
pub struct MeteredCloud {
    cloud: Arc<dyn Cloud>,
    env: Env,
    /// Term of the leader; a replica that does not lead changes nothing in the cloud.
    leader_term: Option<LeaderTerm>,
}

impl MeteredCloud {
    /// The cloud for an actor that only looks.
    pub fn shared(cloud: &Arc<dyn Cloud>, env: &Env, actor: &'static str) -> Arc<dyn Cloud> {
        Arc::new(Self { cloud: cloud.clone(), env: env.for_actor(actor), leader_term: None })
    }

    /// The cloud for an actor of the leader.
    pub fn within(leader_term: &LeaderTerm, cloud: &Arc<dyn Cloud>, env: &Env, actor: &'static str) -> Arc<dyn Cloud> {
        Arc::new(Self { cloud: cloud.clone(), env: env.for_actor(actor), leader_term: Some(leader_term.clone()) })
    }

    /// Goes on with a call while the term lasts.
    async fn in_term<T>(&self, call: &'static str, effect: CloudFuture<'_, T>) -> Result<T, CloudError> {
        match &self.leader_term {
            Some(leader_term) => leader_term.while_holds(effect).await.unwrap_or_else(|| Err(term_is_over(call))),
            None => Err(term_is_over(call)),
        }
    }

    fn answered(&self, method: &'static str, begun: Duration, error: Option<&str>) {
        // That a call is given up with the term is no failure of the cloud's.
        if error.is_some() && self.leader_term.as_ref().is_some_and(|leader_term| !leader_term.holds()) {
            return;
        }
        let seconds = self.env.now().saturating_sub(begun).as_secs_f64();
        self.env.measure(&Measure::CloudAnswered { controller: self.env.actor, method, seconds, error });
    }
}

/// A call that had begun may have been carried out.
fn term_is_over(call: &'static str) -> CloudError {
    CloudError::MayHaveHappened { call, code: "TermIsOver".into(), message: "the term is over".into() }
}

/// Code by which EC2 says that an instance is not there.
const NO_INSTANCE: &str = "InvalidInstanceID.NotFound";

/// Value of the metric's label `error`: Karpenter's name where Karpenter distinguishes the error, else the service's own name.
fn of_cloud(error: &CloudError) -> &str {
    if error.code() == NO_INSTANCE { "NodeClaimNotFoundError" } else { error.name() }
}

fn of_launch(error: &LaunchError) -> &'static str {
    match error.kind {
        LaunchErrorKind::InsufficientCapacity => "InsufficientCapacityError",
        LaunchErrorKind::NodeClassNotReady => "NodeClassNotReadyError",
        LaunchErrorKind::Retryable
        | LaunchErrorKind::Final
        | LaunchErrorKind::MayHaveHappened
        | LaunchErrorKind::TokenUsed
        | LaunchErrorKind::Unsaid => error.reason,
    }
}

macro_rules! looking {
    ($($name:ident $method:literal ($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name<'a>(&'a self, $($arg: $type),*) -> CloudFuture<'a, $answer> {
            Box::pin(async move {
                let begun = self.env.now();
                let answer = self.cloud.$name($($arg),*).await;
                self.answered($method, begun, answer.as_ref().err().map(of_cloud));
                answer
            })
        }
    )*};
}

macro_rules! changing {
    ($($name:ident $method:literal ($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name<'a>(&'a self, $($arg: $type),*) -> CloudFuture<'a, $answer> {
            Box::pin(async move {
                let begun = self.env.now();
                let answer = self.in_term($method, self.cloud.$name($($arg),*)).await;
                self.answered($method, begun, answer.as_ref().err().map(of_cloud));
                answer
            })
        }
    )*};
}

impl CloudIdentity for MeteredCloud {
    fn region(&self) -> &str {
        self.cloud.region()
    }

    fn cluster_uid(&self) -> &str {
        self.cloud.cluster_uid()
    }
}

impl CloudOfferings for MeteredCloud {
    fn whole_types(&self) -> Option<dovetail_cloud::WholeTypes> {
        self.cloud.whole_types()
    }

    looking! {
        instance_types "GetInstanceTypes" () -> Vec<InstanceTypeInfo>;
        offerings "DescribeInstanceTypeOfferings" () -> BTreeMap<String, BTreeSet<String>>;
        on_demand_prices "GetProducts" () -> BTreeMap<String, f64>;
        spot_prices "DescribeSpotPriceHistory" () -> BTreeMap<(String, String), f64>;
        reserved_left "DescribeCapacityReservations" (ids: &'a [String]) -> BTreeMap<String, u32>;
        reserved_instances "DescribeReservedInstances" () -> AccountAnswer;
        savings_plans "DescribeSavingsPlans" () -> AccountAnswer;
        zone_shifts "GetManagedResource" () -> Vec<ZoneShift>;
        others_on_demand "DescribeInstances" () -> Uses;
    }
}

impl CloudNodeClasses for MeteredCloud {
    looking! {
        subnet_has_tag "DescribeSubnets" (key: &'a str) -> bool;
        made "ListMade" () -> Vec<MadeResource>;
    }

    // To resolve a class is to make its instance profile.
    changing! {
        resolve_node_class "ResolveNodeClass" (class: &'a EC2NodeClass) -> NodeClassResolution;
        remove_node_class "RemoveNodeClass" (class: &'a EC2NodeClass) -> ();
        remove_made "RemoveMade" (made: &'a MadeResource) -> ();
    }
}

impl CloudInstances for MeteredCloud {
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
        Box::pin(async move {
            let begun = self.env.now();
            let answer = match &self.leader_term {
                Some(leader_term) => leader_term.while_holds(self.cloud.launch(request)).await,
                None => None,
            };
            let answer = answer.unwrap_or_else(|| Err(LaunchError::from_call(&term_is_over("CreateFleet"))));
            self.answered("Create", begun, answer.as_ref().err().map(of_launch));
            answer
        })
    }

    fn launch_several(&self, request: LaunchRequest, count: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>> {
        Box::pin(async move {
            let begun = self.env.now();
            let answer = match &self.leader_term {
                Some(leader_term) => leader_term.while_holds(self.cloud.launch_several(request, count)).await,
                None => None,
            };
            let answer = answer.unwrap_or_else(|| Err(LaunchError::from_call(&term_is_over("CreateFleet"))));
            let missing = answer.as_ref().map_or_else(Some, |fleet| fleet.missing.as_ref());
            let launched = answer.as_ref().map_or(0, |fleet| fleet.instances.len());
            // As Karpenter counts it: once for each NodeClaim.
            for number in 0..usize::try_from(count).unwrap_or(usize::MAX) {
                self.answered("Create", begun, missing.filter(|_| number >= launched).map(of_launch));
            }
            answer
        })
    }

    fn launch_pace(&self, count: u32) -> LaunchPace {
        self.cloud.launch_pace(count)
    }

    fn reserve_launch(&self, token: &str, count: u32) -> LaunchRoom {
        self.cloud.reserve_launch(token, count)
    }

    fn work_of_leader(&self) -> Option<BoxFuture<'static, ()>> {
        let (work, leader_term) = (self.cloud.work_of_leader()?, self.leader_term.clone()?);
        Some(Box::pin(async move {
            tokio::select! {
                biased;
                () = leader_term.over() => {}
                _ = leader_term.while_holds(work) => {}
            }
        }))
    }

    looking! {
        instances "List" () -> Vec<Instance>;
        instances_by_name "ListByName" (ended: bool) -> Vec<Instance>;
        instance "Get" (id: &'a str) -> Option<Instance>;
        instances_with_token "GetByToken" (token: &'a str) -> Vec<Instance>;
        instances_of "GetAll" (ids: &'a [String]) -> FoundInstances;
        instance_troubles "DescribeInstanceStatus" () -> Vec<Trouble>;
    }

    changing! {
        terminate_all "Delete" (found: &'a [Instance]) -> BTreeMap<String, CloudError>;
        reboot "RebootInstances" (found: &'a Instance) -> ();
        tag "CreateTags" (id: &'a str, tags: &'a BTreeMap<String, String>) -> ();
    }
}

impl CloudQueue for MeteredCloud {
    fn delete_messages<'a>(
        &'a self,
        queue_url: &'a str,
        receipts: &'a [String],
    ) -> CloudFuture<'a, BTreeMap<String, CloudError>> {
        Box::pin(async move {
            let begun = self.env.now();
            let answer = self.in_term("DeleteMessageBatch", self.cloud.delete_messages(queue_url, receipts)).await;
            self.answered("DeleteMessageBatch", begun, answer.as_ref().err().map(of_cloud));
            if let Ok(failed) = &answer {
                self.env.measure(&Measure::MessagesDeleted { count: receipts.len().saturating_sub(failed.len()) });
            }
            answer
        })
    }

    looking! {
        queue_url "GetQueueUrl" (name: &'a str) -> String;
    }

    // A received message is hidden from other readers, so receiving counts as a change.
    changing! {
        receive "ReceiveMessage" (queue_url: &'a str) -> Vec<QueueMessage>;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::sync::Mutex;

    use dovetail_api::v1::EC2NodeClassSpec;
    use dovetail_cloud::cloud::MadeKind;
    use dovetail_core::clock::Clock;
    use tokio::time::Instant;

    use super::*;
    use crate::messages::Term;
    use crate::settings::Settings;
    use crate::telemetry::journal::MemoryJournal;

    /// Whatever is asked is begun at once and done a second later.
    #[derive(Default)]
    struct Slow {
        begun: Mutex<Vec<&'static str>>,
        done: Mutex<Vec<&'static str>>,
    }

    impl Slow {
        async fn call<T: Default>(&self, name: &'static str) -> T {
            self.begun.lock().unwrap().push(name);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.done.lock().unwrap().push(name);
            T::default()
        }
    }

    macro_rules! slow {
        ($($name:ident ($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
            fn $name<'a>(&'a self, $($arg: $type),*) -> CloudFuture<'a, $answer> {
                $(let _ = $arg;)*
                Box::pin(async move { Ok(self.call(stringify!($name)).await) })
            }
        )*};
    }

    impl CloudIdentity for Slow {
        fn region(&self) -> &str {
            ""
        }

        fn cluster_uid(&self) -> &str {
            ""
        }
    }

    impl CloudOfferings for Slow {
        fn whole_types(&self) -> Option<dovetail_cloud::WholeTypes> {
            None
        }

        slow! {
            instance_types() -> Vec<InstanceTypeInfo>;
            offerings() -> BTreeMap<String, BTreeSet<String>>;
            on_demand_prices() -> BTreeMap<String, f64>;
            spot_prices() -> BTreeMap<(String, String), f64>;
            reserved_left(ids: &'a [String]) -> BTreeMap<String, u32>;
            reserved_instances() -> AccountAnswer;
            savings_plans() -> AccountAnswer;
            zone_shifts() -> Vec<ZoneShift>;
            others_on_demand() -> Uses;
        }
    }

    impl CloudNodeClasses for Slow {
        slow! {
            resolve_node_class(class: &'a EC2NodeClass) -> NodeClassResolution;
            remove_node_class(class: &'a EC2NodeClass) -> ();
            made() -> Vec<MadeResource>;
            remove_made(made: &'a MadeResource) -> ();
            subnet_has_tag(key: &'a str) -> bool;
        }
    }

    impl CloudInstances for Slow {
        fn launch(&self, _: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
            Box::pin(async move { Ok(self.call("launch").await) })
        }

        fn launch_several(&self, _: LaunchRequest, _: u32) -> BoxFuture<'_, Result<LaunchedFleet, LaunchError>> {
            Box::pin(async move { Ok(self.call("launch_several").await) })
        }

        fn launch_pace(&self, _: u32) -> LaunchPace {
            LaunchPace::default()
        }

        slow! {
            instances() -> Vec<Instance>;
            instances_by_name(ended: bool) -> Vec<Instance>;
            instance(id: &'a str) -> Option<Instance>;
            instances_with_token(token: &'a str) -> Vec<Instance>;
            instances_of(ids: &'a [String]) -> FoundInstances;
            terminate_all(found: &'a [Instance]) -> BTreeMap<String, CloudError>;
            reboot(found: &'a Instance) -> ();
            tag(id: &'a str, tags: &'a BTreeMap<String, String>) -> ();
            instance_troubles() -> Vec<Trouble>;
        }

        fn work_of_leader(&self) -> Option<BoxFuture<'static, ()>> {
            Some(Box::pin(std::future::pending()))
        }
    }

    impl CloudQueue for Slow {
        slow! {
            queue_url(name: &'a str) -> String;
            receive(queue_url: &'a str) -> Vec<QueueMessage>;
            delete_messages(queue_url: &'a str, receipts: &'a [String]) -> BTreeMap<String, CloudError>;
        }
    }

    struct TokioClock(Instant);

    impl Clock for TokioClock {
        fn monotonic(&self) -> Duration {
            self.0.elapsed()
        }

        fn wall(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
    }

    /// Makes every call that changes something, all at once; answers how many came out well.
    async fn change_everything(cloud: &dyn Cloud) -> usize {
        let class = EC2NodeClass::new("default", EC2NodeClassSpec::default());
        let (kind, nothing) = (MadeKind::LaunchTemplate, String::new());
        let made =
            MadeResource { kind, name: nothing.clone(), class: nothing, class_uid: None, created: None, in_use: false };
        let request = LaunchRequest::new("token", "default", Arc::new(class.clone()));
        let (ids, tags) = (vec!["i-1".to_owned()], BTreeMap::new());
        let well = tokio::join!(
            async { cloud.launch(request.clone()).await.is_ok() },
            async { cloud.launch_several(request.clone(), 2).await.is_ok() },
            async { cloud.resolve_node_class(&class).await.is_ok() },
            async { cloud.remove_node_class(&class).await.is_ok() },
            async { cloud.terminate_all(&[]).await.is_ok() },
            async { cloud.remove_made(&made).await.is_ok() },
            async { cloud.tag("i-1", &tags).await.is_ok() },
            async { cloud.reboot(&Instance::default()).await.is_ok() },
            async { cloud.receive("queue").await.is_ok() },
            async { cloud.delete_messages("queue", &ids).await.is_ok() },
        );
        let well = [well.0, well.1, well.2, well.3, well.4, well.5, well.6, well.7, well.8, well.9];
        well.into_iter().filter(|one| *one).count()
    }

    #[tokio::test(start_paused = true)]
    async fn cloud_changes_nothing_after_deadline_even_by_begun_call() {
        let clock = Arc::new(TokioClock(Instant::now()));
        let env = Env::new("r", Settings::default(), clock.clone(), Arc::new(MemoryJournal::default()), 1);
        let leader_term = LeaderTerm::new(Term(1), Duration::from_millis(1500), clock);
        let slow = Arc::new(Slow::default());
        let shared: Arc<dyn Cloud> = slow.clone();
        let cloud = MeteredCloud::within(&leader_term, &shared, &env, "test");
        assert_eq!(change_everything(&*cloud).await, 10);
        // These begin half a second before the deadline.
        assert_eq!(change_everything(&*cloud).await, 0);
        assert_eq!((slow.begun.lock().unwrap().len(), slow.done.lock().unwrap().len()), (20, 10));
        assert_eq!(change_everything(&*cloud).await, 0);
        assert_eq!(slow.begun.lock().unwrap().len(), 20, "these do not even begin");
        assert!(cloud.instances().await.is_ok(), "one may still look");
        let onlooker = MeteredCloud::shared(&shared, &env, "test");
        assert_eq!(change_everything(&*onlooker).await, 0);
        assert!(onlooker.work_of_leader().is_none(), "who does not lead has no such work");
    }

    #[tokio::test(start_paused = true)]
    async fn providers_work_ends_with_the_term() {
        let clock = Arc::new(TokioClock(Instant::now()));
        let env = Env::new("r", Settings::default(), clock.clone(), Arc::new(MemoryJournal::default()), 1);
        let leader_term = LeaderTerm::new(Term(1), Duration::from_secs(60), clock);
        let slow: Arc<dyn Cloud> = Arc::new(Slow::default());
        let mut work = MeteredCloud::within(&leader_term, &slow, &env, "test").work_of_leader().unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(59), &mut work).await.is_err(), "the term lasts");
        leader_term.end();
        assert!(tokio::time::timeout(Duration::from_secs(1), work).await.is_ok());
    }
}
