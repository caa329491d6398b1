//! Lists that are read page by page, and looks at the Leases that are watched. Anybody may make many Leases, and large ones: of
//! each no more is kept than its place and what is looked at, and a look ends at a bound.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use dovetail_actors::reading::{LenientApi, ObjectPage};
use futures::future::try_join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use tokio::time::timeout;

use super::MOST_LEASES;
use super::others::stripped;

/// Longest wait for one answer, and longest time between two looks that show whether a Lease is renewed.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Most Leases that are read each by itself in a look, all at once; where more are watched, all of their names are listed.
pub const MOST_READ_ALONE: usize = 20;
/// Names whose Leases are listed at once, and Leases a page: that many large ones are in memory together.
const NAMES_AT_ONCE: usize = 4;
const PAGE: u32 = 50;

/// Namespace and name of a Lease.
pub type Place = (String, String);

/// Outcome of a look at all Leases that are watched.
#[derive(Debug)]
pub enum Look {
    /// All of them that are there now.
    Whole(BTreeMap<Place, Lease>),
    /// Time was over, or more Leases were listed than are read.
    Unfinished,
    /// The API server refused, or could not be reached.
    Failed,
}

/// Looks at the Leases of these places.
pub async fn look_at(client: &Client, places: &BTreeSet<Place>) -> Look {
    match timeout(ANSWER_WITHIN, leases_at(client, places)).await {
        Ok(Ok(Some(leases))) => Look::Whole(leases),
        Ok(Err(_)) => Look::Failed,
        Ok(Ok(None)) | Err(_) => Look::Unfinished,
    }
}

/// The Leases of these places; none where more are listed than are read.
async fn leases_at(client: &Client, places: &BTreeSet<Place>) -> kube::Result<Option<BTreeMap<Place, Lease>>> {
    if places.len() <= MOST_READ_ALONE {
        let each = places.iter().map(|(namespace, name)| async move {
            let own: LenientApi<Lease> = LenientApi::namespaced(client.clone(), namespace);
            let found = own.list(&named(name)).await;
            found.map(|page| page.items.into_iter().filter_map(|one| watched(one, places)).collect::<Vec<_>>())
        });
        return Ok(Some(try_join_all(each).await?.into_iter().flatten().collect()));
    }
    let names: BTreeSet<&str> = places.iter().map(|(_, name)| name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let mut leases = BTreeMap::new();
    for some in names.chunks(NAMES_AT_ONCE) {
        for found in try_join_all(some.iter().map(|name| leases_named(client, name, places))).await? {
            let Some(found) = found else { return Ok(None) };
            leases.extend(found);
        }
    }
    Ok(Some(leases))
}

/// The Leases of a name among these places; none where the bound came before all of them were found.
async fn leases_named(
    client: &Client,
    name: &str,
    places: &BTreeSet<Place>,
) -> kube::Result<Option<BTreeMap<Place, Lease>>> {
    let all: LenientApi<Lease> = LenientApi::all(client.clone());
    let all = &all;
    let wanted = places.iter().filter(|place| place.1 == name).count();
    let (mut leases, mut read) = (BTreeMap::new(), 0);
    let list = |page: ListParams| async move { all.list(&page).await };
    let ended = each_page(named(name), list, |found| {
        read += found.len();
        leases.extend(found.into_iter().filter_map(|one| watched(one, places)));
        read < MOST_LEASES && leases.len() < wanted
    });
    let ended = ended.await?;
    Ok((ended || leases.len() >= wanted).then_some(leases))
}

/// The Lease by its place, without what is not looked at; none if it is not watched.
fn watched(lease: Lease, places: &BTreeSet<Place>) -> Option<(Place, Lease)> {
    let place = (lease.namespace().unwrap_or_default(), lease.name_any());
    places.contains(&place).then(|| (place, stripped(lease)))
}

/// A page of the objects of a name.
pub fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}")).limit(PAGE)
}

/// Lists page by page for as long as `take` goes on; answers true if that was to the end.
///
/// # Errors
/// A page cannot be had. Those before it were taken.
pub async fn each_page<K, E, F: Future<Output = Result<ObjectPage<K>, E>>>(
    mut page: ListParams,
    mut list: impl FnMut(ListParams) -> F,
    mut take: impl FnMut(Vec<K>) -> bool,
) -> Result<bool, E> {
    loop {
        let found = list(page.clone()).await?;
        let goes_on = take(found.items);
        let Some(token) = found.continues else { return Ok(true) };
        if !goes_on {
            return Ok(false);
        }
        page = page.continue_token(&token);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::{Value, json};
    use tokio::time::{Instant, sleep};

    use super::super::tests::{client, list};
    use super::*;

    const NAME: &str = "karpenter-leader-election";

    fn lease(namespace: &str) -> Value {
        json!({
            "metadata": {"name": NAME, "namespace": namespace, "annotations": {"large": "x"}, "managedFields": [{}]},
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
        })
    }

    fn places(count: usize) -> BTreeSet<Place> {
        (0..count).map(|nth| (format!("a{nth}"), NAME.to_owned())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn leases_read_each_by_itself_are_read_at_once_and_stripped() {
        let slow = client(|path: String| async move {
            sleep(Duration::from_secs(3)).await;
            let namespace = path.split('/').nth(5).unwrap_or_default().to_owned();
            (200, list(&[lease(&namespace), lease("another")], None))
        });
        let begun = Instant::now();
        let Look::Whole(leases) = look_at(&slow, &places(MOST_READ_ALONE)).await else { panic!("no look") };
        assert_eq!((leases.len(), begun.elapsed().as_secs()), (MOST_READ_ALONE, 3));
        let bare = |lease: &Lease| lease.metadata.annotations.is_none() && lease.metadata.managed_fields.is_none();
        assert!(leases.values().all(|lease| bare(lease) && lease.spec.is_some()));
    }

    #[tokio::test(start_paused = true)]
    async fn list_ends_at_its_bound_or_once_all_are_found() {
        let endless = |found: usize| {
            client(move |path: String| async move {
                let first = !path.contains("continue=");
                let others = (0..1000).map(|nth| lease(&format!("b{nth}")));
                let ours = (0..if first { found } else { 0 }).map(|nth| lease(&format!("a{nth}")));
                (200, list(&ours.chain(others).collect::<Vec<_>>(), Some("more")))
            })
        };
        let looked = look_at(&endless(30), &places(30)).await;
        assert!(matches!(&looked, Look::Whole(leases) if leases.len() == 30), "{looked:?}");
        assert!(matches!(look_at(&endless(29), &places(30)).await, Look::Unfinished));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_told_from_looks_without_an_end() {
        for status in [410, 429, 500] {
            let refusing = client(move |_: String| async move { (status, super::super::tests::failure(status)) });
            for count in [1, 30] {
                assert!(matches!(look_at(&refusing, &places(count)).await, Look::Failed), "{status}");
            }
        }
        let silent = client(|_: String| std::future::pending());
        assert!(matches!(look_at(&silent, &places(1)).await, Look::Unfinished));
    }
}
