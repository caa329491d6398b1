//! Shadow mode: our control plane in a copy of a cluster in which another provisioner is at work.
//!
//! ```text
//! the cluster ── list, watch ──► Mirror ──► the copy: an API server, kube-scheduler, kubelets and a region, in memory
//!      │                                       ▲      │
//!      │                                 our replica  │
//!      ▼                                              ▼
//!   Observer ─────────────► Ledger ◄─────────────── Observer
//! ```
//!
//! The replica is the one of `run`, all of it: what it would write goes into the copy, because it has no other client. The one
//! client of the real API server is held by [`watch`], which lists and watches. Of the real cloud types, zones and prices are read,
//! once, before anything begins.
//!
//! What the cluster's nodes of NodePools become after the beginning, the copy does not follow: there it is our replica that
//! launches and removes. Pods are followed, by name; where each of them runs is decided in the copy.

mod admit;
mod catalogue;
mod class;
mod copy;
mod kinds;
mod mirror;
mod nodes;
mod pods;
mod watch;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::{Journal, ReplicaHandle, Settings, Solver};
use dovetail_cloud::Cloud;
use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_core::clock::Clock;
use dovetail_core::shadow::{Ledger, Observer, ShadowReport, Side, SideDecision};
use dovetail_input::Failure;
use dovetail_sandbox::apiserver::{ChangeKind, Gvr, Happened, NODE_CLAIMS, PODS};
use jiff::SignedDuration;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use copy::Copy;
use kinds::text;
use mirror::Mirror;
use watch::{ClusterWatches, CopiedNews};

/// The pauses after failures in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub struct ShadowParts {
    /// The real API server; listed and watched, and nothing else.
    pub kube: kube::Client,
    /// The real cloud; types, zones and prices are read.
    pub cloud: Arc<dyn Cloud>,
    /// Settings, as of a replica.
    pub settings: Settings,
    /// Wall clock and monotonic clock.
    pub clock: Arc<dyn Clock>,
    /// The seed of all chance in the copy.
    pub seed: u64,
    /// Solver that computes packings.
    pub solver: Arc<dyn Solver>,
    /// Journal of the replica in the copy.
    pub journal: Arc<dyn Journal>,
    /// Hears what there is to say.
    pub listener: ShadowListener,
}

/// Hears what there is to say of a shadow.
pub type ShadowListener = Rc<dyn Fn(&ShadowEvent)>;

/// A decision of either side, or a note on the report.
#[derive(Clone, Debug, PartialEq)]
pub enum ShadowEvent {
    /// A node is launched or told to go: by whom.
    Decided(Side, SideDecision),
    /// Something keeps the report from being whole; said once.
    Note(String),
}

/// A shadow that runs. To be kept within the LocalSet in which it was started.
pub struct Shadow {
    state: Rc<RefCell<State>>,
    replica: ReplicaHandle,
    clock: Arc<dyn Clock>,
}

/// Kinds of a cluster that are listed and watched; nothing else is asked for.
pub fn listed() -> impl Iterator<Item = &'static Gvr> {
    kinds::KINDS.iter().map(|kind| &kind.gvr)
}

/// State of both sides.
struct State {
    mirror: Mirror,
    ledger: Ledger,
    active: Observer,
    shadow: Observer,
    catalogue: Arc<RegionCatalogue>,
    clock: Arc<dyn Clock>,
    listener: ShadowListener,
    notes: Notes,
}

/// Notes on what keeps the report from being whole, each once.
type Notes = Rc<RefCell<BTreeSet<String>>>;

/// So many are enough to see that something is wrong.
const MOST_NOTES: usize = 200;

impl Shadow {
    /// Lists the cluster, makes the copy, and starts the replica in it. Waits for whatever cannot be had yet, and says so.
    ///
    /// # Errors
    /// The copy cannot be made.
    pub async fn start(parts: ShadowParts) -> Result<Self, Failure> {
        let notes = Notes::default();
        let listener = noted(&notes, parts.listener.clone());
        let catalogue = Arc::new(catalogue::read_catalogue(&*parts.cloud, parts.seed, &listener).await);
        let (watched, first) = ClusterWatches::start(&parts.kube, parts.seed, &listener).await;
        let copy = Copy::new(&parts, &catalogue, &first)?;
        let changes = copy.api.subscribe(&[PODS, NODE_CLAIMS]);
        let window = parts.settings.batch_max + parts.settings.batch_idle;
        let window = SignedDuration::try_from(window).unwrap_or(SignedDuration::from_secs(11));
        let mut state = State {
            mirror: Mirror::new(copy),
            ledger: Ledger::new(parts.clock.wall(), window),
            active: Observer::default(),
            shadow: Observer::default(),
            catalogue,
            clock: parts.clock.clone(),
            listener,
            notes,
        };
        first.into_iter().for_each(|(gvr, object)| state.real(&gvr, &object, true));
        state.mirror.begun();
        state.note();
        let replica = state.mirror.copy().start_replica(parts);
        let clock = state.clock.clone();
        let state = Rc::new(RefCell::new(state));
        tokio::task::spawn_local(follow_both(state.clone(), watched, changes));
        Ok(Self { state, replica, clock })
    }

    /// Decisions of both sides until now.
    #[must_use]
    pub fn report(&self) -> ShadowReport {
        let state = self.state.borrow();
        let mut report = state.ledger.report(self.clock.wall());
        report.notes.extend(state.notes.borrow().iter().cloned());
        report
    }

    /// The replica in the copy.
    #[must_use]
    pub fn replica(&self) -> &ReplicaHandle {
        &self.replica
    }
}

/// Notes each note, and passes on what has not been noted yet.
fn noted(notes: &Notes, to: ShadowListener) -> ShadowListener {
    let notes = notes.clone();
    Rc::new(move |event| {
        let known = match event {
            ShadowEvent::Note(note) => {
                let mut notes = notes.borrow_mut();
                let full = notes.len() >= MOST_NOTES;
                full || !notes.insert(note.clone())
            }
            ShadowEvent::Decided(..) => false,
        };
        if !known {
            to(event);
        }
    })
}

/// Follows both sides for ever. What happens in the copy comes first: a pod that it has lost may be wanted anew.
async fn follow_both(state: Rc<RefCell<State>>, mut watched: ClusterWatches, mut changes: UnboundedReceiver<Happened>) {
    loop {
        tokio::select! {
            biased;
            change = changes.recv() => match change {
                Some(change) => state.borrow_mut().copied(&change),
                None => return,
            },
            heard = watched.next() => match heard {
                Some(heard) => state.borrow_mut().heard(heard),
                None => return,
            },
        }
        state.borrow_mut().note();
    }
}

impl State {
    fn heard(&mut self, heard: CopiedNews) {
        match heard {
            CopiedNews::There(gvr, object) => self.real(&gvr, &object, false),
            CopiedNews::Gone(gvr, object) => {
                let name = |field: &str| text(&object, &["metadata", field]).to_owned();
                self.gone(&gvr, &name("namespace"), &name("name"));
            }
            CopiedNews::All(gvr, there) => {
                for (namespace, name) in self.mirror.missed(&gvr, &there) {
                    self.gone(&gvr, &namespace, &name);
                }
                if gvr == NODE_CLAIMS {
                    let there = there.into_iter().map(|(_, name)| name).collect();
                    for name in self.active.missed_claims(&there) {
                        self.gone(&gvr, "", &name);
                    }
                } else if gvr == PODS {
                    let there = there.into_iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
                    for (namespace, name) in self.active.missed_pods(&there) {
                        self.gone(&gvr, &namespace, &name);
                    }
                }
            }
        }
    }

    /// An object is there in the cluster, or has changed.
    fn real(&mut self, gvr: &Gvr, object: &Arc<Value>, before: bool) {
        let facts = match gvr {
            gvr if *gvr == NODE_CLAIMS => self.active.claim(object, before, &|a, b, c| price(&self.catalogue, a, b, c)),
            gvr if *gvr == PODS => self.active.pod(object),
            _ => Vec::new(),
        };
        self.record(Side::Active, facts);
        self.mirror.apply(gvr, object);
    }

    /// An object is gone from the cluster.
    fn gone(&mut self, gvr: &Gvr, namespace: &str, name: &str) {
        let facts = match gvr {
            gvr if *gvr == NODE_CLAIMS => self.active.claim_gone(name),
            gvr if *gvr == PODS => self.active.pod_gone(namespace, name),
            _ => Vec::new(),
        };
        self.record(Side::Active, facts);
        self.mirror.remove(gvr, namespace, name);
    }

    /// Something has changed in the copy.
    fn copied(&mut self, change: &Happened) {
        let gone = change.kind == ChangeKind::Deleted;
        let key = &change.key;
        let facts = match (change.gvr == PODS, gone) {
            (true, false) => self.shadow.pod(&change.new),
            (true, true) => self.shadow.pod_gone(&key.namespace, &key.name),
            (false, true) => self.shadow.claim_gone(&key.name),
            (false, false) => {
                let before = self.mirror.is_from_before(&key.name);
                self.shadow.claim(&change.new, before, &|a, b, c| price(&self.catalogue, a, b, c))
            }
        };
        self.record(Side::Shadow, facts);
        if change.gvr == PODS && gone {
            self.mirror.pod_lost(key);
        }
    }

    fn record(&mut self, side: Side, facts: Vec<dovetail_core::shadow::Fact>) {
        let now = self.clock.wall();
        for fact in facts {
            if let Some(decision) = self.ledger.record(side, now, fact) {
                (self.listener)(&ShadowEvent::Decided(side, decision));
            }
        }
    }

    /// Says what has not been said yet.
    fn note(&mut self) {
        for note in self.mirror.take_notes() {
            (self.listener)(&ShadowEvent::Note(note));
        }
    }
}

/// $/h of a node. What is reserved is paid for, used or not.
fn price(catalogue: &RegionCatalogue, instance_type: &str, zone: &str, capacity_type: &str) -> Option<f64> {
    match capacity_type {
        "spot" => catalogue.spot.get(&(instance_type.to_owned(), zone.to_owned())).copied(),
        "reserved" => Some(0.0),
        _ => catalogue.on_demand.get(instance_type).copied(),
    }
}
