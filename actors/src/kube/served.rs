//! Watch of a kind whose CRD may not be installed: the API server is asked until it serves the kind, which is then watched in the
//! newest version that is served.
//!
//! ```text
//! asked ──none of its versions──► NotServed, asked again every minute
//!   └────served in a version──► Served ──► for each list: Seen or Unreadable …, Listed; then Seen, Unreadable, Gone
//!   ▲                                        │ the watch fails, and the version is not served any more, as was answered twice
//!   └────────────────────────────────────────┘ (of a kind in no version: Listed without objects, Runs)
//! ```

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::Unreadable;
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use kube_runtime::watcher::Event;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::context::env::Env;
use crate::kube::watch::{AfterWatchFailure, WatchNews, watch};
use crate::messages::Came;
use crate::reading::{LenientApi, kinds_served};

/// Interval at which it is asked if the kind is served, until it is.
const LOOK_FOR_KIND: Duration = Duration::from_secs(60);
/// The same while the API server does not say.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Number of answers in a row that a version is not the one to watch, until the watch is given up.
const ANSWERED_OTHERWISE: u32 = 2;
/// Longest wait for its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// An object that a watch can show.
pub trait Watchable: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static> Watchable for K {}

/// A kind that the API server may not serve.
pub trait OptionalKind: Watchable {
    /// Type of its objects in the older version; the same type where there is none.
    type Older: Watchable + Into<Self>;

    /// `kind` of the objects.
    const KIND: &'static str;
    /// Plural of the kind, which is the name of its watch.
    const RESOURCE: &'static str;
    /// API versions in which it is watched, the newest first.
    const VERSIONS: &'static [&'static str];
}

/// News of such a kind. An object's key is `namespace/name`, or its name if it has no namespace.
#[derive(Message)]
#[rtype(result = "()")]
pub enum KindNews<K: 'static> {
    /// The API server serves the kind in none of its versions. Told once, until it has been served.
    NotServed,
    /// The kind is watched in this version from now on.
    Served(&'static str),
    /// An object is there, or has changed.
    Seen(Box<K>),
    /// An object is there, or has changed, and cannot be read.
    Unreadable(Box<Unreadable>),
    /// The object with this key is gone.
    Gone(String),
    /// A list is complete. It has shown the objects with these keys.
    Listed(BTreeSet<String>),
    /// The watch has failed with this error and is requested again after this pause.
    Failed(Duration, String),
    /// The watch had failed and is known to run again.
    Runs,
}

/// The key of an object.
pub fn key_of(metadata: &ObjectMeta) -> String {
    let name = metadata.name.as_deref().unwrap_or_default();
    match &metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Tells `tell` of the kind's objects. Ends never; the actor that spawned it ends it. `client` is one for watches.
pub async fn watch_where_served<K: OptionalKind>(
    env: Env,
    client: Client,
    tell: impl Fn(KindNews<K>) + Clone + 'static,
) {
    let mut was_served = false;
    loop {
        let not_served = || {
            if was_served {
                // Its CRD is gone, and its objects with it, whether or not the watch has told of each.
                tell(KindNews::Listed(BTreeSet::new()));
                tell(KindNews::Runs);
            }
            tell(KindNews::NotServed);
        };
        let version = served_version::<K>(&client, not_served).await;
        was_served = true;
        tell(KindNews::Served(version));
        let failed = Arc::new(Notify::new());
        let (env, here, tell, fails) = (env.clone(), client.clone(), tell.clone(), failed.clone());
        let watching = async move {
            match K::VERSIONS.first() == Some(&version) {
                true => watch_version::<K, K>(env, here, tell, fails).await,
                false => watch_version::<K, K::Older>(env, here, tell, fails).await,
            }
        };
        tokio::select! {
            biased;
            () = watching => {}
            () = no_longer_served(version, &failed, || newest::<K>(&client)) => {}
        }
    }
}

/// Waits until the API server says, after failures of the watch, that it does not serve this version as the newest.
async fn no_longer_served<F>(version: &str, failed: &Notify, newest: impl Fn() -> F)
where
    F: Future<Output = Option<Option<&'static str>>>,
{
    let mut others = 0_u32;
    // One that has just started may not know its CRDs yet: to forget the objects for that would be a plan without them.
    while others < ANSWERED_OTHERWISE {
        if others == 0 {
            failed.notified().await;
        }
        others = match newest().await {
            Some(other) if other != Some(version) => others + 1,
            _ => 0,
        };
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// The newest version that is served, once there is one.
async fn served_version<K: OptionalKind>(client: &Client, not_served: impl FnOnce()) -> &'static str {
    let mut not_served = Some(not_served);
    loop {
        match newest::<K>(client).await {
            Some(Some(version)) => return version,
            Some(None) => {
                not_served.take().into_iter().for_each(|tell| tell());
                tokio::time::sleep(LOOK_FOR_KIND).await;
            }
            None => tokio::time::sleep(ASK_AGAIN).await,
        }
    }
}

/// The newest version that the API server serves now, if any; `None` while it does not say.
async fn newest<K: OptionalKind>(client: &Client) -> Option<Option<&'static str>> {
    for version in K::VERSIONS {
        let answer = tokio::time::timeout(ANSWERED_WITHIN, kinds_served(client, version)).await;
        if answer.ok()?.ok()?.contains(K::KIND) {
            return Some(Some(version));
        }
    }
    Some(None)
}

async fn watch_version<K, V>(env: Env, client: Client, tell: impl Fn(KindNews<K>) + 'static, failed: Arc<Notify>)
where
    K: OptionalKind,
    V: Watchable + Into<K>,
{
    let mut listing = None;
    let on = move |heard: WatchNews<V>| {
        if matches!(heard, WatchNews::Failed(..)) {
            failed.notify_one();
        }
        if let Some(news) = news_of::<K, V>(heard, &mut listing) {
            tell(news);
        }
    };
    watch(LenientApi::<V>::all(client), env, K::RESOURCE, AfterWatchFailure::GoOn, on).await;
}

/// The news in an event of the watch. `listing` has the keys that the current list has shown.
fn news_of<K, V>(heard: WatchNews<V>, listing: &mut Option<BTreeSet<String>>) -> Option<KindNews<K>>
where
    V: Resource<DynamicType = ()> + Into<K>,
{
    let mut observed = |metadata: &ObjectMeta| {
        if let Some(listing) = listing.as_mut() {
            listing.insert(key_of(metadata));
        }
    };
    Some(match heard {
        WatchNews::Event(Event::InitApply(object) | Event::Apply(object)) => {
            observed(object.meta());
            KindNews::Seen(Box::new(object.into()))
        }
        WatchNews::NotRead(object, Came::Listed | Came::Changed) => {
            observed(&object.metadata);
            KindNews::Unreadable(object)
        }
        WatchNews::Event(Event::Delete(object)) => KindNews::Gone(key_of(object.meta())),
        WatchNews::NotRead(object, Came::Gone) => KindNews::Gone(key_of(&object.metadata)),
        WatchNews::Event(Event::Init) => {
            *listing = Some(BTreeSet::new());
            return None;
        }
        WatchNews::Event(Event::InitDone) => KindNews::Listed(listing.take().unwrap_or_default()),
        WatchNews::Failed(pause, error) => KindNews::Failed(pause, error),
        WatchNews::Runs => KindNews::Runs,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(name: &str) -> ConfigMap {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    #[test]
    fn list_names_all_that_it_has_shown_read_or_not() {
        let (mut listing, mut told) = (None, Vec::new());
        let unread = Unreadable { metadata: object("b").metadata, ..Unreadable::default() };
        for heard in [
            WatchNews::Event(Event::Init),
            WatchNews::Event(Event::InitApply(object("a"))),
            WatchNews::NotRead(Box::new(unread), Came::Listed),
            WatchNews::Event(Event::InitDone),
            WatchNews::Event(Event::Apply(object("c"))),
            WatchNews::Event(Event::Init),
            WatchNews::Event(Event::InitDone),
        ] {
            told.extend(match news_of::<ConfigMap, ConfigMap>(heard, &mut listing) {
                Some(KindNews::Listed(keys)) => Some(keys.into_iter().collect::<Vec<_>>().join(",")),
                Some(KindNews::Seen(one)) => Some(format!("seen {}", key_of(&one.metadata))),
                Some(KindNews::Unreadable(one)) => Some(format!("unread {}", key_of(&one.metadata))),
                _ => None,
            });
        }
        assert_eq!(told, ["seen a", "unread b", "a,b", "seen c", ""]);
    }

    /// A deleted CRD is noticed by two answers after a failure; a failure alone, or one odd answer, changes nothing.
    #[tokio::test(start_paused = true)]
    async fn watch_is_given_up_when_its_version_is_not_served() {
        let none_is_there: Option<Option<&'static str>> = Some(None);
        let end_by = |answers: Vec<Option<Option<&'static str>>>, fails: bool| async move {
            let (failed, answers) = (Notify::new(), std::cell::RefCell::new(answers.into_iter()));
            if fails {
                failed.notify_one();
            }
            let newest = || std::future::ready(answers.borrow_mut().next().unwrap_or(Some(Some("v1"))));
            let ended = no_longer_served("v1", &failed, newest);
            tokio::time::timeout(Duration::from_secs(30), ended).await.is_ok()
        };
        assert!(end_by(vec![none_is_there, none_is_there], true).await);
        assert!(end_by(vec![Some(Some("v2")), Some(Some("v2"))], true).await, "there is a newer one alone");
        assert!(!end_by(vec![none_is_there, None], true).await, "it is away");
        assert!(!end_by(vec![none_is_there, Some(Some("v1"))], true).await, "it was starting");
        assert!(!end_by(vec![none_is_there, none_is_there], false).await, "the watch has not failed");
    }
}
