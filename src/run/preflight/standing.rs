//! Stands by while a Lease elsewhere may be that of a Karpenter at work, for as long as the Lease lasts and no longer than a
//! minute. Whoever may write a Lease in some namespace can have one renewed; that a Karpenter provisions is proven by a Lease
//! that is renewed twice while its holder's ServiceAccount may create NodeClaims, which only an administrator grants. Where the
//! Leases cannot be read meanwhile nothing is proven, and a warning says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_actors::reading::LenientApi;
use dovetail_core::lease::STRANGERS_WAIT;
use dovetail_input::Failure;
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Client, ResourceExt};
use tokio::time::{Instant, sleep, timeout};

use super::MOST_NAMED;
use super::look::{ANSWER_WITHIN, Look, MOST_READ_ALONE, Place, look_at};
use super::others::{SuspectLease, believed_duration, holder, is_unusual};

/// Pause between two looks. A Karpenter renews its Lease every two seconds.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time without renewal after which a Lease is not watched on, whatever duration it states: Karpenter, which renews every two
/// seconds, gives up after ten.
const UNRENEWED: Duration = Duration::from_secs(20);
/// Looks without an end, and without a whole one between them, after which only [`MOST_READ_ALONE`] Leases are watched on.
const UNFINISHED_LOOKS: u32 = 2;
/// Most Leases whose accounts are asked about, in all and between two looks.
const MOST_JUDGED: usize = 100;
const MOST_JUDGED_AT_ONCE: usize = 10;
/// Accounts that are asked about for one Lease.
const MOST_ACCOUNTS: usize = 4;
/// Renewals that show that somebody is at work.
const RENEWALS: u32 = 2;

/// The renewals of one Lease that were seen.
#[derive(Clone, Debug, Default)]
struct Renewals {
    /// Holder and renewal, as seen last, and when that was first seen.
    seen: Option<(String, Option<Timestamp>, Duration)>,
    count: u32,
}

impl Renewals {
    /// Takes in the Lease as it is now; a renewal counts if it comes within the Lease's own duration, which is bounded.
    fn see(&mut self, lease: Option<&Lease>, now: Duration) {
        let Some((lease, by)) = lease.and_then(|lease| Some((lease, holder(lease)?))) else {
            *self = Self::default();
            return;
        };
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
        match &self.seen {
            Some((known, last, _)) if known == by && *last == renewed => return,
            Some((known, _, at)) if known == by && now.saturating_sub(*at) <= believed_duration(lease) => {
                self.count += 1
            }
            _ => self.count = 0,
        }
        self.seen = Some((by.to_owned(), renewed, now));
    }

    /// True if the last look still found it as it was for its whole duration.
    fn is_unrenewed(&self, looks: &Looks, duration: Duration) -> bool {
        let since = self.seen.as_ref().map(|(.., at)| *at).or(looks.first);
        since.is_some_and(|since| looks.last >= since + duration.min(UNRENEWED))
    }

    /// Account that renews it, once that is seen.
    fn holder(&self) -> Option<&str> {
        self.seen.as_ref().filter(|_| self.count >= RENEWALS).map(|(holder, ..)| holder.as_str())
    }
}

/// Times at which the Leases could be read.
#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    first: Option<Duration>,
    last: Duration,
    /// The longest time between two looks.
    pause: Duration,
}

impl Looks {
    fn note(&mut self, now: Duration) {
        if self.first.is_some() {
            self.pause = self.pause.max(now.saturating_sub(self.last));
        }
        self.first.get_or_insert(now);
        self.last = now;
    }

    /// True if Leases that last so long are looked at no more: that long after the first look, and after a minute in any case.
    fn are_over(&self, now: Duration, longest: Duration) -> bool {
        now > STRANGERS_WAIT.min(self.first.map_or(STRANGERS_WAIT, |first| first + longest))
    }

    /// True if there were enough looks to see who renews a Lease.
    fn suffice(&self, now: Duration) -> bool {
        self.first.is_some() && self.pause.max(now.saturating_sub(self.last)) <= ANSWER_WITHIN
    }
}

/// Verdict on the accounts that renew a Lease.
enum Verdict {
    /// This account may create NodeClaims.
    Provisions(String),
    /// None of the accounts may create NodeClaims.
    Harmless(String),
    /// The accounts' rights cannot be told.
    Unknown(String),
}

/// Watches Leases that may be those of a Karpenter at work. What is found is told by `warn`.
///
/// # Errors
/// One of them is.
pub async fn stand_by(client: &Client, suspects: Vec<SuspectLease>, warn: impl Fn(&str)) -> Result<(), Failure> {
    let Some(longest) = suspects.iter().map(|one| one.duration).max() else { return Ok(()) };
    let begun = Instant::now();
    let mut watch = Watch::new(suspects);
    let (mut named, mut more) = (0, 0);
    while !watch.looks.are_over(begun.elapsed(), longest) && !watch.watched.is_empty() {
        match look_at(client, &watch.places()).await {
            Look::Whole(leases) => {
                watch.see(&leases, begun.elapsed());
                for (suspect, renewals) in watch.split_off_renewed() {
                    let why = not_heeded(client, &suspect, &renewals).await?;
                    // Made-up ones take the place of none in the usual namespaces.
                    if is_unusual(&suspect.namespace) && named == MOST_NAMED {
                        more += 1;
                    } else {
                        named += usize::from(is_unusual(&suspect.namespace));
                        warn(&why);
                    }
                }
            }
            Look::Unfinished => watch.keep_few(&warn),
            Look::Failed => {}
        }
        watch.drop_unrenewed();
        if !watch.watched.is_empty() {
            sleep(LOOK_INTERVAL).await;
        }
    }
    if more > 0 {
        warn(&format!(
            "{more} more Lease(s) are renewed by accounts that are not known to provision: they are not heeded"
        ));
    }
    let suffice = watch.looks.suffice(begun.elapsed());
    watch.report(suffice, &warn);
    Ok(())
}

/// The Leases that are watched, and what came of the others.
#[derive(Debug, Default)]
struct Watch {
    /// In the order in which their accounts are asked about.
    watched: Vec<(SuspectLease, Renewals)>,
    unrenewed: Vec<SuspectLease>,
    /// Number of those whose accounts were asked about.
    judged: usize,
    /// Number of those that were too many to be asked about.
    left_out: usize,
    /// Looks without an end since the last whole one.
    unfinished: u32,
    looks: Looks,
}

impl Watch {
    fn new(suspects: Vec<SuspectLease>) -> Self {
        let watched = suspects.into_iter().map(|suspect| (suspect, Renewals::default())).collect();
        Self { watched, ..Self::default() }
    }

    fn places(&self) -> BTreeSet<Place> {
        self.watched.iter().map(|(suspect, _)| (suspect.namespace.clone(), suspect.name.clone())).collect()
    }

    /// Takes in a whole look, by namespace and name.
    fn see(&mut self, leases: &BTreeMap<Place, Lease>, now: Duration) {
        self.looks.note(now);
        self.unfinished = 0;
        for (suspect, renewals) in &mut self.watched {
            renewals.see(leases.get(&(suspect.namespace.clone(), suspect.name.clone())), now);
        }
    }

    /// Splits off the Leases that are seen to be renewed, as many as are asked about before the next look. Each is judged once;
    /// beyond the bound none is.
    fn split_off_renewed(&mut self) -> Vec<(SuspectLease, Renewals)> {
        let is_renewed = |one: &(SuspectLease, Renewals)| one.1.holder().is_some();
        let (mut renewed, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.watched).into_iter().partition(is_renewed);
        let most = MOST_JUDGED_AT_ONCE.min(MOST_JUDGED - self.judged);
        let mut later = renewed.split_off(most.min(renewed.len()));
        self.judged += renewed.len();
        if self.judged == MOST_JUDGED {
            self.left_out += later.len();
            later.clear();
        }
        self.watched = later;
        self.watched.extend(rest);
        renewed
    }

    /// Takes in a look that came to no end. After the second only the first few are watched on, which is told by `warn`.
    fn keep_few(&mut self, warn: &impl Fn(&str)) {
        self.unfinished += 1;
        let more = self.watched.len().saturating_sub(MOST_READ_ALONE);
        if self.unfinished < UNFINISHED_LOOKS || more == 0 {
            return;
        }
        // Those that wait for their judgement stand before the others.
        self.watched.sort_by_key(|one| is_unusual(&one.0.namespace));
        self.watched.truncate(MOST_READ_ALONE);
        // The looks without an end took of the time in which these are seen to be renewed.
        self.looks = Looks::default();
        warn(&format!(
            "the Leases that look like a Karpenter's are too many or too large to be read in {} s: {more} of them are not \
             watched any more; if a Karpenter runs outside of the namespaces karpenter and kube-system, scale it to 0",
            ANSWER_WITHIN.as_secs()
        ));
    }

    /// Ends the watch of those that were not renewed for long enough.
    fn drop_unrenewed(&mut self) {
        let looks = self.looks;
        let is_over = |one: &(SuspectLease, Renewals)| one.1.is_unrenewed(&looks, one.0.duration);
        let (over, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.watched).into_iter().partition(is_over);
        self.unrenewed.extend(over.into_iter().map(|(suspect, _)| suspect));
        self.watched = rest;
    }

    /// Says of those that nothing was proven of that they are not heeded, by name of the first few.
    fn report(self, suffice: bool, warn: &impl Fn(&str)) {
        let rest = self.watched.into_iter().map(|(suspect, _)| suspect);
        let (mut seen, mut unseen) = (self.unrenewed, Vec::new());
        if suffice {
            seen.extend(rest)
        } else {
            unseen.extend(rest)
        }
        for all in [&mut seen, &mut unseen] {
            all.sort_by_key(|suspect| is_unusual(&suspect.namespace));
        }
        for SuspectLease { namespace, name, holder, .. } in seen.iter().take(MOST_NAMED) {
            warn(&format!(
                "Lease {namespace}/{name}, held by {holder}, is not renewed as a Karpenter does: it is not heeded"
            ));
        }
        for SuspectLease { namespace, name, holder, .. } in unseen.iter().take(MOST_NAMED) {
            warn(&format!(
                "Lease {namespace}/{name}, held by {holder}, could not be read often enough to see whether it is renewed: it is \
                 not heeded; if a Karpenter runs there, scale it to 0"
            ));
        }
        let more =
            self.left_out + [&seen, &unseen].map(|all| all.len().saturating_sub(MOST_NAMED)).iter().sum::<usize>();
        if more > 0 {
            warn(&format!("{more} more Lease(s) that look like a Karpenter's are not heeded"));
        }
    }
}

/// The reason why a Lease that is renewed is not heeded.
///
/// # Errors
/// An account that renews it may create NodeClaims.
async fn not_heeded(client: &Client, suspect: &SuspectLease, renewals: &Renewals) -> Result<String, Failure> {
    let holder = renewals.holder().unwrap_or_default();
    let found = format!("Lease {}/{} is held by {holder}", suspect.namespace, suspect.name);
    match judge(client, suspect, holder).await {
        Verdict::Provisions(account) => Err(Failure::System(format!(
            "something else provisions in this cluster: {found}, which renews it as {account} and may create \
             NodeClaims; two of them would launch twice: scale it to 0, or run Dovetail in its namespace with its Lease"
        ))),
        Verdict::Harmless(accounts) => {
            Ok(format!("{found}, whose ServiceAccount may not create NodeClaims ({accounts}): it is not heeded"))
        }
        Verdict::Unknown(why) => Ok(format!(
            "{found}, and it cannot be told whether that may create NodeClaims ({why}): it is not heeded; if a Karpenter \
             runs there, scale it to 0"
        )),
    }
}

/// Asks whether any account by which the holder may run may create NodeClaims.
async fn judge(client: &Client, suspect: &SuspectLease, holder: &str) -> Verdict {
    let of_holder = account_of_holder(client, &suspect.namespace, holder).await;
    let mut accounts = accounts_in_turn(suspect, of_holder);
    let more = accounts.len().saturating_sub(MOST_ACCOUNTS);
    accounts.truncate(MOST_ACCOUNTS);
    if accounts.is_empty() {
        return Verdict::Unknown("there is no pod of the holder's name in that namespace".to_owned());
    }
    let mut asked = Vec::new();
    let mut unknown: Vec<String> =
        (more > 0).then(|| format!("{more} more accounts are not asked about")).into_iter().collect();
    for (namespace, name) in accounts {
        let account = format!("system:serviceaccount:{namespace}:{name}");
        match may_create_claims(client, &account, &namespace).await {
            Ok(true) => return Verdict::Provisions(account),
            Ok(false) => asked.push(account),
            Err(why) => unknown.push(format!("{account}: {why}")),
        }
    }
    if unknown.is_empty() { Verdict::Harmless(asked.join(", ")) } else { Verdict::Unknown(unknown.join("; ")) }
}

/// The accounts in the order in which they are asked about: the holder's own, then those of the Lease's namespace. Whoever has a
/// namespace may have Deployments there that say that they lead by a Lease elsewhere.
fn accounts_in_turn(suspect: &SuspectLease, of_holder: Option<(String, String)>) -> Vec<(String, String)> {
    let mut accounts = suspect.accounts.clone();
    accounts.retain(|one| Some(one) != of_holder.as_ref());
    accounts.sort_by_cached_key(|one| (one.0 != suspect.namespace, one.clone()));
    accounts.dedup();
    of_holder.into_iter().chain(accounts).collect()
}

/// The account of the pod that holds a Lease: holders name themselves by their pod, an underscore and a number.
async fn account_of_holder(client: &Client, namespace: &str, holder: &str) -> Option<(String, String)> {
    let pod = holder.rsplit_once('_').map_or(holder, |(pod, _)| pod);
    let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
    if pod.is_empty() || !pod.chars().all(named) {
        return None;
    }
    let pods: LenientApi<Pod> = LenientApi::namespaced(client.clone(), namespace);
    let listed = ListParams::default().fields(&format!("metadata.name={pod}"));
    let found = timeout(ANSWER_WITHIN, pods.list(&listed)).await.ok()?.ok()?.items.into_iter();
    let spec = found.filter(|found| found.name_any() == pod).find_map(|pod| pod.spec)?;
    Some((namespace.to_owned(), spec.service_account_name.unwrap_or_else(|| "default".to_owned())))
}

/// True if an account may create NodeClaims, by the API server's own answer.
async fn may_create_claims(client: &Client, account: &str, namespace: &str) -> Result<bool, String> {
    let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(account.to_owned()),
            groups: Some(groups.map(str::to_owned).to_vec()),
            resource_attributes: Some(ResourceAttributes {
                group: Some("karpenter.sh".to_owned()),
                resource: Some("nodeclaims".to_owned()),
                verb: Some("create".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api: LenientApi<SubjectAccessReview> = LenientApi::all(client.clone());
    match timeout(ANSWER_WITHIN, api.create(&PostParams::default(), &review)).await {
        Ok(Ok(SubjectAccessReview { status: Some(SubjectAccessReviewStatus { allowed, .. }), .. })) => Ok(allowed),
        Ok(Ok(_)) => Err("the API server's review says nothing".to_owned()),
        Ok(Err(error)) => Err(crate::run::connect::plainly(&error)),
        Err(_) => Err("the API server did not answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::super::tests::{client, failure, list};
    use super::*;

    fn lease(holder: &str, renewed: &str, seconds: i32) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": "karpenter-leader-election", "namespace": "a"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed},
        }))
        .unwrap()
    }

    fn suspect(namespace: &str, seconds: u64) -> SuspectLease {
        SuspectLease {
            namespace: namespace.to_owned(),
            name: "karpenter-leader-election".to_owned(),
            holder: "x".to_owned(),
            duration: Duration::from_secs(seconds),
            accounts: Vec::new(),
        }
    }

    fn seen(looks: &[(u64, Option<Lease>)]) -> Option<String> {
        let mut renewals = Renewals::default();
        for (second, lease) in looks {
            renewals.see(lease.as_ref(), Duration::from_secs(*second));
        }
        renewals.holder().map(str::to_owned)
    }

    #[test]
    fn who_renews_a_lease_twice_in_its_time_is_at_work() {
        let at = |second: u64| format!("2026-01-01T00:00:{second:02}.000000Z");
        let renewed = |second: u64| (second, Some(lease("x", &at(second), 15)));
        assert_eq!(seen(&[renewed(0), renewed(2), renewed(4)]), Some("x".to_owned()));
        assert_eq!(seen(&[renewed(0), renewed(2), renewed(2)]), None, "one renewal, seen twice");
        assert_eq!(seen(&[renewed(0), renewed(16), renewed(40)]), None, "too late by its own duration");
        assert_eq!(seen(&[renewed(0), renewed(2), (3, None), renewed(4)]), None, "it was gone");
        let other = (3, Some(lease("y", &at(3), 15)));
        assert_eq!(seen(&[renewed(0), renewed(2), other, renewed(4)]), None, "it changes hands");
    }

    #[test]
    fn far_times_and_endless_durations_prove_nothing() {
        let far = |second: u64| (second, Some(lease("x", "2099-01-01T00:00:00.000000Z", i32::MAX)));
        assert_eq!(seen(&[far(0), far(30), far(59)]), None);
        let rare =
            |second: u64| (second, Some(lease("x", &format!("2099-01-01T00:{:02}:00.000000Z", second / 61), i32::MAX)));
        assert_eq!(seen(&[rare(0), rare(61), rare(122), rare(183)]), None, "a minute is all that is believed");
    }

    #[test]
    fn accounts_of_elsewhere_crowd_nobody_out() {
        let account = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        let invented = (0..9).map(|n| account("aaa", &format!("invented-{n}")));
        let suspect = SuspectLease {
            namespace: "karpenter".to_owned(),
            name: "karpenter-leader-election".to_owned(),
            holder: "kp-1_x".to_owned(),
            duration: Duration::from_secs(15),
            accounts: invented.chain([account("karpenter", "kp"), account("karpenter", "other")]).collect(),
        };
        let first = |of_holder, most| accounts_in_turn(&suspect, of_holder).into_iter().take(most).collect::<Vec<_>>();
        let (kp, other) = (account("karpenter", "kp"), account("karpenter", "other"));
        assert_eq!(first(None, 2), [kp.clone(), other.clone()]);
        assert_eq!(first(Some(other.clone()), 2), [other.clone(), kp.clone()], "the holder's own is the first");
        let own = account("karpenter", "own");
        assert_eq!(first(Some(own.clone()), 3), [own, kp, other]);
        assert_eq!(first(None, usize::MAX).len(), 11);
    }

    #[test]
    fn made_up_leases_hide_none_that_is_renewed() {
        let names = (0..3000).map(|nth| format!("a{nth}")).chain(["zzz".to_owned()]);
        let mut watch = Watch::new(names.map(|name| suspect(&name, 60)).collect());
        // So many are renewed, and the one that matters is the last.
        let leases = |second: u64, renewed: usize| {
            let lease_of = |(nth, namespace): (usize, String)| {
                let second = if nth < renewed || namespace == "zzz" { second } else { 0 };
                let lease = lease("x", &format!("2026-01-01T00:00:{second:02}.000000Z"), 60);
                ((namespace, "karpenter-leader-election".to_owned()), lease)
            };
            let names = (0..3000).map(|nth| format!("a{nth}")).chain(["zzz".to_owned()]);
            names.enumerate().map(lease_of).collect::<BTreeMap<_, _>>()
        };
        let mut judged = Vec::new();
        for second in 0..9 {
            watch.see(&leases(second, 30), Duration::from_secs(second));
            judged.extend(watch.split_off_renewed().into_iter().map(|(suspect, _)| suspect.namespace));
            watch.drop_unrenewed();
        }
        assert_eq!((judged.len(), judged.last().map(String::as_str)), (31, Some("zzz")));
        watch.see(&leases(25, 0), Duration::from_secs(25));
        watch.drop_unrenewed();
        assert!(watch.watched.is_empty(), "the others end the watch twenty seconds on");
        let warned = std::cell::RefCell::new(Vec::new());
        watch.report(true, &|text: &str| warned.borrow_mut().push(text.to_owned()));
        assert_eq!(warned.borrow().len(), MOST_NAMED + 1);
        assert!(warned.borrow()[MOST_NAMED].starts_with("2965 more Lease(s)"), "{:?}", warned.borrow());
    }

    #[test]
    fn accounts_are_asked_about_within_a_bound() {
        let mut watch = Watch { judged: MOST_JUDGED - 1, ..Watch::default() };
        let renewed = Renewals { seen: Some(("x".to_owned(), None, Duration::ZERO)), count: RENEWALS };
        watch.watched = ["a", "b", "c"].map(|namespace| (suspect(namespace, 60), renewed.clone())).into();
        watch.watched.push((suspect("d", 60), Renewals::default()));
        assert_eq!(watch.split_off_renewed().len(), 1);
        assert_eq!((watch.left_out, watch.watched.len()), (2, 1), "the one that is not renewed is watched on");
    }

    #[test]
    fn looks_without_an_end_cut_the_watch_after_the_second() {
        let names = (0..29).map(|nth| format!("a{nth}")).chain(["karpenter".to_owned()]);
        let mut watch = Watch::new(names.map(|name| suspect(&name, 60)).collect());
        let warned = std::cell::RefCell::new(Vec::new());
        let warn = |text: &str| warned.borrow_mut().push(text.to_owned());
        watch.keep_few(&warn);
        watch.see(&BTreeMap::new(), Duration::from_secs(6));
        watch.keep_few(&warn);
        assert_eq!((watch.watched.len(), warned.borrow().len()), (30, 0), "a whole look is between them");
        watch.keep_few(&warn);
        watch.keep_few(&warn);
        assert_eq!((watch.watched.len(), warned.borrow().len()), (MOST_READ_ALONE, 1));
        assert_eq!(watch.watched[0].0.namespace, "karpenter");
        assert!(warned.borrow()[0].contains("10 of them are not watched any more"), "{:?}", warned.borrow());
        assert!(!watch.looks.are_over(Duration::from_secs(22), Duration::from_secs(15)), "their time begins anew");
    }

    #[test]
    fn leases_of_usual_namespaces_are_named_first() {
        let names = (0..9).map(|nth| format!("a{nth}")).chain(["karpenter".to_owned()]);
        for suffice in [true, false] {
            let unrenewed = names.clone().map(|name| suspect(&name, 1)).collect();
            let watched = names.clone().map(|name| (suspect(&name, 60), Renewals::default())).collect();
            let warned = std::cell::RefCell::new(Vec::new());
            let watch = Watch { unrenewed, watched, ..Watch::default() };
            watch.report(suffice, &|text: &str| warned.borrow_mut().push(text.to_owned()));
            let first = |at: usize| warned.borrow()[at].starts_with("Lease karpenter/");
            assert!(first(0) && (suffice || first(MOST_NAMED)), "{:?}", warned.borrow());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn blips_and_one_slow_look_hide_no_karpenter() {
        let (begun, looks) = (Instant::now(), std::sync::atomic::AtomicU32::new(0));
        let server = client(move |path: String| {
            let asked = path.contains("/leases");
            let look = if asked { looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) } else { 0 };
            async move {
                let kp = json!({"metadata": {"name": "kp-1", "namespace": "zzz"}, "spec": {"containers": []}});
                let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                    "metadata": {}, "spec": {}, "status": {"allowed": true}});
                match look {
                    _ if path.contains("/pods") => return (200, list(&[kp], None)),
                    _ if !asked => return (201, review),
                    1 => return (429, failure(429)),
                    2 => sleep(ANSWER_WITHIN * 2).await,
                    _ => {}
                }
                let at = |second: u64| format!("2026-01-01T00:00:{second:02}.000000Z");
                let made_up = (0..30).map(|nth| (format!("a{nth}"), lease("x", &at(0), 15)));
                let real = ("zzz".to_owned(), lease("kp-1_x", &at(begun.elapsed().as_secs()), 15));
                let leases = made_up.chain([real]).map(|(namespace, mut one)| {
                    one.metadata.namespace = Some(namespace);
                    serde_json::to_value(one).unwrap()
                });
                (200, list(&leases.collect::<Vec<_>>(), None))
            }
        });
        let suspects = (0..30).map(|nth| format!("a{nth}")).chain(["zzz".to_owned()]);
        let ended = stand_by(&server, suspects.map(|name| suspect(&name, 15)).collect(), |_| {}).await;
        let said = format!("{:?}", ended.unwrap_err());
        assert!(said.contains("Lease zzz/karpenter-leader-election is held by kp-1_x"), "{said}");
    }

    #[test]
    fn a_lease_that_could_not_be_read_is_not_unrenewed() {
        let (second, fifteen) = (Duration::from_secs, Duration::from_secs(15));
        let none = Looks::default();
        assert!(!none.suffice(second(60)) && !Renewals::default().is_unrenewed(&none, fifteen));
        assert!(!none.are_over(second(60), fifteen) && none.are_over(second(61), fifteen));
        // The first answer comes after 40 seconds.
        let (mut late, mut renewals) = (none, Renewals::default());
        let one = lease("x", "2026-01-01T00:00:00.000000Z", 15);
        late.note(second(40));
        renewals.see(Some(&one), second(40));
        assert!(!renewals.is_unrenewed(&late, fifteen) && !late.are_over(second(55), fifteen));
        assert!(late.suffice(second(45)) && !late.suffice(second(46)), "no look since");
        late.note(second(55));
        renewals.see(Some(&one), second(55));
        assert!(renewals.is_unrenewed(&late, fifteen), "it stands as it did fifteen seconds ago");
        assert!(!late.suffice(second(55)), "much may have happened between two looks");
        let mut often = none;
        (3..=18).for_each(|at| often.note(second(at)));
        assert!(often.suffice(second(19)) && often.are_over(second(19), fifteen));
    }
}
