//! All that the launcher knows of a claim, or of an order for one, by its name: one record. Its phases are drawn in
//! `dovetail_core::lifecycle::launch_phase`; the order of those that wait for their turn is the queue's.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::SpawnHandle;
use dovetail_api::v1::NodeClaim;
use dovetail_core::launch_backoff::Demand;
use dovetail_core::launch_limits::PoolAndClass;
use dovetail_core::lifecycle::launch_phase::LaunchPhase;
use tokio::sync::Notify;

use super::Launcher;
use super::again::Relaunches;
use crate::context::book::{Book, Key};
use crate::messages::TraceContext;

pub(super) type Launches = Book<Launch, LaunchPhase>;

#[derive(Default)]
pub(super) struct Launch {
    /// Tells whatever is under way that the claim is gone.
    gone: Arc<Notify>,
    /// The claim as it was shown last while something was under way.
    pub observed: Option<Arc<NodeClaim>>,
    /// A claim of this name that appeared after its create call was given up; deleted when what is under way ends.
    pub late: Option<Arc<NodeClaim>>,
    /// Present while it is held.
    pub held: Option<Held>,
    /// $/h while it is launched, where a ceiling asks for it.
    pub price: Option<f64>,
    /// Pool and class that it was a trial of, if its claim is gone before its launch has ended.
    pub lost_trial: Option<PoolAndClass>,
    /// Launches of it that ended well.
    pub relaunches: Option<Relaunches>,
    /// Its node has not registered.
    pub unregistered: bool,
}

/// An order that may not be launched yet.
pub(super) struct Held {
    pub trace: TraceContext,
    /// For a node of this pool and class to register, if it does.
    pub trial: Option<PoolAndClass>,
    /// The claim, where it is there already.
    pub claim: Option<Arc<NodeClaim>>,
    /// For what it asks for to be tried again, if that was refused.
    pub demand: Option<Demand>,
    pub alarm: SpawnHandle,
}

impl Launch {
    fn is_empty(&self) -> bool {
        let is_seen = self.observed.is_some() || self.late.is_some() || self.unregistered;
        !is_seen && self.held.is_none() && self.lost_trial.is_none() && self.relaunches.is_none()
    }
}

impl Launcher {
    /// Phase of what is under way under a name.
    pub(super) fn phase(&self, name: &str) -> Option<LaunchPhase> {
        self.known.phase(&Key::claim(name)).filter(|phase| phase.is_under_way())
    }

    pub(super) fn is_under_way(&self, name: &str) -> bool {
        self.phase(name).is_some()
    }

    /// Puts a name into a phase of what is under way. Answers what tells it that its claim is gone.
    pub(super) fn enter(&mut self, name: &str, phase: LaunchPhase) -> Arc<Notify> {
        let (key, goes_on) = (Key::claim(name), self.is_under_way(name));
        let own = self.known.open(&key);
        if !goes_on {
            own.gone = Arc::default();
        }
        let gone = own.gone.clone();
        self.known.enter(&key, Some(phase));
        gone
    }

    /// Nothing is under way under a name any more. Answers its claim as it was shown meanwhile.
    pub(super) fn leave(&mut self, name: &str) -> Option<Arc<NodeClaim>> {
        let key = Key::claim(name);
        self.known.enter(&key, None);
        let own = self.known.get_mut(&key)?;
        own.price = None;
        let observed = own.observed.take();
        self.known.close(&key, Launch::is_empty);
        observed
    }

    /// A part of what is kept of a name, which is dropped with it where nothing else is kept.
    pub(super) fn take_part<T>(&mut self, name: &str, part: impl FnOnce(&mut Launch) -> T) -> Option<T> {
        let key = Key::claim(name);
        let taken = self.known.get_mut(&key).map(part);
        self.known.close(&key, Launch::is_empty);
        taken
    }

    /// A claim is gone: nothing of it is kept, and whatever is under way hears of it, but for one that only waits as it may not be
    /// launched. Answers that one's alarm.
    pub(super) fn drop_claim(&mut self, name: &str) -> Option<SpawnHandle> {
        let (key, phase) = (Key::claim(name), self.phase(name));
        let own = self.known.get_mut(&key)?;
        let held = if own.held.as_ref().is_some_and(|held| held.claim.is_some()) { own.held.take() } else { None };
        if phase.is_none() || held.is_some() {
            self.known.gone(&key);
        } else {
            (own.observed, own.late, own.relaunches, own.unregistered) = (None, None, None, false);
            own.gone.notify_one();
        }
        held.map(|held| held.alarm)
    }

    /// Names of those that are held and meant.
    pub(super) fn held(&self, is_meant: impl Fn(&Held) -> bool) -> Vec<String> {
        let held = self.known.under_way().filter(|(_, phase)| *phase == LaunchPhase::Held);
        let meant = |key: &Key| self.known.get(key).and_then(|own| own.held.as_ref()).is_some_and(&is_meant);
        held.filter(|(key, _)| meant(key)).map(|(key, _)| key.name().to_owned()).collect()
    }

    /// $/h of the claims that are being launched, by name.
    pub(super) fn committed(&self) -> BTreeMap<String, f64> {
        self.known.records().filter_map(|(key, own)| Some((key.name().to_owned(), own.price?))).collect()
    }
}
