//! The cloud, with each of its answers measured for whoever asks (core spec 7.1, `cloudprovider_*`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::info::InstanceTypeInfo;
use dovetail_cloud::node_class::NodeClassResolution;
use dovetail_cloud::{
    Cloud, CloudError, CloudFuture, Instance, LaunchError, LaunchErrorKind, LaunchRequest, LaunchedInstance, Made,
    QueueMessage,
};
use futures::future::BoxFuture;

use crate::desk::Desk;
use crate::measure::Measure;

/// See the module.
pub struct MeteredCloud {
    cloud: Arc<dyn Cloud>,
    desk: Desk,
}

impl MeteredCloud {
    /// The cloud for an actor.
    pub fn shared(cloud: &Arc<dyn Cloud>, desk: &Desk, actor: &'static str) -> Arc<dyn Cloud> {
        Arc::new(Self { cloud: cloud.clone(), desk: desk.of(actor) })
    }

    fn answered(&self, method: &'static str, begun: Duration, error: Option<&'static str>) {
        let seconds = self.desk.now().saturating_sub(begun).as_secs_f64();
        self.desk.measure(&Measure::CloudAnswered { controller: self.desk.actor, method, seconds, error });
    }
}

/// As the metric's label `error` has it: what Karpenter tells apart, and nothing for the rest.
fn of_cloud(error: &CloudError) -> &'static str {
    if error.is_not_found() { "NodeClaimNotFoundError" } else { "" }
}

fn of_launch(error: &LaunchError) -> &'static str {
    match error.kind {
        LaunchErrorKind::InsufficientCapacity => "InsufficientCapacityError",
        LaunchErrorKind::NodeClassNotReady => "NodeClassNotReadyError",
        LaunchErrorKind::Retryable | LaunchErrorKind::Final | LaunchErrorKind::MayHaveHappened => "",
    }
}

macro_rules! metered {
    ($($name:ident $method:literal ($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name<'a>(&'a self, $($arg: $type),*) -> CloudFuture<'a, $answer> {
            Box::pin(async move {
                let begun = self.desk.now();
                let answer = self.cloud.$name($($arg),*).await;
                self.answered($method, begun, answer.as_ref().err().map(of_cloud));
                answer
            })
        }
    )*};
}

impl Cloud for MeteredCloud {
    fn region(&self) -> &str {
        self.cloud.region()
    }

    fn cluster_uid(&self) -> &str {
        self.cloud.cluster_uid()
    }

    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedInstance, LaunchError>> {
        Box::pin(async move {
            let begun = self.desk.now();
            let answer = self.cloud.launch(request).await;
            self.answered("Create", begun, answer.as_ref().err().map(of_launch));
            answer
        })
    }

    fn delete_messages<'a>(&'a self, queue_url: &'a str, receipts: &'a [String]) -> CloudFuture<'a, ()> {
        Box::pin(async move {
            let begun = self.desk.now();
            let answer = self.cloud.delete_messages(queue_url, receipts).await;
            self.answered("DeleteMessageBatch", begun, answer.as_ref().err().map(of_cloud));
            if answer.is_ok() {
                self.desk.measure(&Measure::MessagesDeleted { count: receipts.len() });
            }
            answer
        })
    }

    metered! {
        instance_types "GetInstanceTypes" () -> Vec<InstanceTypeInfo>;
        offerings "DescribeInstanceTypeOfferings" () -> BTreeMap<String, BTreeSet<String>>;
        on_demand_prices "GetProducts" () -> BTreeMap<String, f64>;
        spot_prices "DescribeSpotPriceHistory" () -> BTreeMap<(String, String), f64>;
        resolve_node_class "ResolveNodeClass" (class: &'a EC2NodeClass) -> NodeClassResolution;
        reserved_left "DescribeCapacityReservations" (ids: &'a [String]) -> BTreeMap<String, u32>;
        remove_node_class "RemoveNodeClass" (class: &'a EC2NodeClass) -> ();
        instances "List" () -> Vec<Instance>;
        instances_by_name "ListByName" (ended: bool) -> Vec<Instance>;
        instance "Get" (id: &'a str) -> Option<Instance>;
        instances_with_token "GetByToken" (token: &'a str) -> Vec<Instance>;
        terminate "Delete" (id: &'a str) -> ();
        instances_of "GetAll" (ids: &'a [String]) -> Vec<Instance>;
        terminate_all "DeleteAll" (ids: &'a [String]) -> Vec<Instance>;
        made "ListMade" () -> Vec<Made>;
        remove_made "RemoveMade" (made: &'a Made) -> ();
        tag "CreateTags" (id: &'a str, tags: &'a BTreeMap<String, String>) -> ();
        queue_url "GetQueueUrl" (name: &'a str) -> String;
        receive "ReceiveMessage" (queue_url: &'a str) -> Vec<QueueMessage>;
    }
}
