//! The decisions of leader election on a `coordination.k8s.io/v1` Lease.
//!
//! ```text
//!              ask          answer                    renew_by = ask + renew_deadline
//! leader  ──────┬─────────────┬───────┬────────────────────┤ deposed, with nobody's help
//!               │ counted from here   │ renew every retry
//! standby ──┬───────────────────────────────┤ seen unchanged for the lease's own duration: take over
//!           first seen
//! ```
//!
//! | role | input | what follows |
//! |---|---|---|
//! | standby | read: given back, ours, or unchanged for its duration | write (update) with the term raised |
//! | standby | read: with a term that no leader can have had; given back, ours, or not renewed for a while | write (update), vacant |
//! | standby | read: perhaps out of a backup; given back, ours, or not renewed for a while | write (update), vacant |
//! | standby | read: other software's, and unchanged for its duration and ours, whoever holds it | write (update), with the term above all |
//! | standby | read: none | write (create), vacant |
//! | standby | wrote a vacant one, is told so, and nobody is known to have led | write (update) with the first term |
//! | standby | read: vacant and unchanged for its duration | write (update) with the term raised |
//! | standby | read: somebody's, or vacant, and fresh | wait |
//! | standby | wrote | leader of that term until ask + deadline; of a vacant one nobody is |
//! | standby | refused, unknown | read again |
//! | leader | time at or past the deadline | deposed |
//! | leader | read: still ours, same term | write (renew) |
//! | leader | read: another's, or another term, or none | deposed |
//! | leader | wrote | deadline moves |
//! | leader | refused, unknown | read again; the deadline stands |
//!
//! A Lease that is deleted takes with it what it knew: whether somebody leads, and how high terms have gone; and nobody can
//! tell by looking now and then how often that has happened. So the next one is created vacant (term 0), and nobody leads
//! until it has stood for its duration: whoever led by an earlier one has reached its deadline by then. Its first term is
//! not below its resourceVersion, which is above that of every write before: above every term, too, as no term exceeds the
//! resourceVersion at which it was written (decision 011 has the proof; where resourceVersions outgrow the field, the
//! highest term on any NodeClaim or remembered has to do).
//!
//! A Lease that other software created, such as Karpenter, counts from 0 while its creator leads: it is never vacant, and
//! its count says nothing of earlier terms, nor does its release say that whoever led before it was created has ended. So a
//! vacant Lease carries a mark, as does one that Dovetail has taken ([`TermOrigin`]); what carries none is taken only when it
//! has stood unchanged, whoever holds it, with a term that begins anew above all.
//!
//! An API server that is restored from a backup shows the Lease as it was: whom it names may have been followed by others,
//! one of whom may lead until it notices, and terms have gone higher. So a Lease that is older than one this replica knows,
//! or that it has not seen written and that was renewed long ago ([`LeaseView::stale`]), or that stood while it did not
//! look for longer than a look takes, or that names it though it has not renewed it for longer than it lasts, is as good as deleted: it is made vacant (decision 025).
//!
//! Whoever may write a Lease can put any number there. A term that no leader can have had is not counted, and the Lease is
//! made vacant; a duration of years is waited for as long as [`STRANGERS_WAIT`] ([`trust`]; decision 032).
//!
//! Invariants: LE-1 a leader's deadline lies before the time at which a standby that saw its last write may take over;
//! LE-2 every acquisition raises the term, by the same identity too; LE-3 every write carries the resourceVersion last read or written.

use std::time::Duration;

use serde::Serialize;

mod record;
mod settings;
mod trust;

pub use record::{LeaseView, LeaseWrite, TermOrigin};
pub use settings::{AHEAD, JITTER, LeaseSettings};
pub use trust::{Distrust, STRANGERS_WAIT};

/// Highest resourceVersion that becomes a first term: a new Lease leaves a million terms of an int32 for later ones. Each
/// `etcdutl snapshot restore --bump-revision` adds a thousand million, so that the third restore reaches it.
const MOST_FIRST_TERM: u64 = (1 << 31) - (1 << 21);
/// Highest term that a leader can have: none comes near the end of an int32 by being raised.
const MOST_TERM: u64 = (1 << 31) - (1 << 20);

/// True if a leader can have had such a term. A higher one would leave no room for those that follow.
#[must_use]
pub fn is_plausible_term(term: u64) -> bool {
    term <= MOST_TERM
}

/// An event for the election. Times are CLOCK_BOOTTIME's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseInput {
    /// The Lease as it stands, read no longer than [`LeaseSettings::patience`] ago; `None`: there is no such object.
    Read(Option<LeaseView>),
    /// Our write was accepted; `asked` is from before the request was sent.
    Wrote {
        /// The Lease that came back.
        lease: LeaseView,
        /// Time at which the request was sent, or earlier.
        asked: Duration,
    },
    /// Our write was refused (conflict), or its result is unknown (time-out, 5xx), or a read failed.
    Failed,
    /// Nothing but time has passed.
    Time,
}

/// The election's answer to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOutput {
    Write(LeaseWrite),
    /// This replica leads from now on.
    Elected {
        /// The term: higher than any that the Lease or the cluster has shown.
        term: u64,
    },
    /// This replica no longer leads.
    Deposed {
        /// The term that has ended.
        term: u64,
        /// The reason for the end of the term.
        why: Deposition,
    },
    /// Nothing to do; look again after the retry time.
    Wait,
}

/// The reason that a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deposition {
    /// The deadline passed without a renewal.
    NotRenewed,
    /// The Lease names another holder or another term.
    Taken,
    Missing,
}

/// One replica's part in the election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    identity: String,
    settings: LeaseSettings,
    role: Role,
    /// The Lease last seen held by another.
    seen: Option<Seen>,
    /// The latest version of the Lease that is none out of a backup.
    known: u64,
    /// The version last seen that may be out of a backup.
    doubted: Option<u64>,
    /// It has created the Lease, and knows of no earlier leader: it need not wait.
    first: bool,
    /// Highest term known from any source.
    highest: u64,
    /// Highest term that this replica has led: an answer that comes late must not begin it again.
    led: u64,
    /// Time of the request that last made or kept it leader.
    renewed: Option<Duration>,
    /// The reason that it does not go by the Lease as it last read it.
    distrust: Option<Distrust>,
}

/// A Lease, the time since which it has been seen unchanged, and the time of the last look.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    lease: LeaseView,
    since: Duration,
    looked: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Standby,
    Leader { term: u64, until: Duration },
}

impl Election {
    /// A standby that has seen nothing.
    #[must_use]
    pub fn new(identity: impl Into<String>, settings: LeaseSettings) -> Self {
        Self {
            identity: identity.into(),
            settings,
            role: Role::Standby,
            seen: None,
            known: 0,
            doubted: None,
            first: false,
            highest: 0,
            led: 0,
            renewed: None,
            distrust: None,
        }
    }

    /// Notes a term seen elsewhere (on a NodeClaim): a recreated Lease starts above it. A term that no leader can have had is
    /// ignored.
    pub fn saw_term(&mut self, term: u64) {
        if is_plausible_term(term) {
            self.highest = self.highest.max(term);
        }
    }

    /// Ends this replica's term before its deadline, as when the API server has refused its writes. Answers the term that
    /// ends, if it leads.
    pub fn resign(&mut self) -> Option<u64> {
        let term = self.leads()?.0;
        self.role = Role::Standby;
        self.seen = None;
        Some(term)
    }

    /// The term and its deadline while this replica leads.
    #[must_use]
    pub fn leads(&self) -> Option<(u64, Duration)> {
        match self.role {
            Role::Leader { term, until } => Some((term, until)),
            Role::Standby => None,
        }
    }

    /// Identity of the Lease's holder; empty if unknown or vacant.
    #[must_use]
    pub fn holder(&self) -> &str {
        match (&self.role, &self.seen) {
            (Role::Leader { .. }, _) => &self.identity,
            (Role::Standby, Some(Seen { lease, .. })) if lease.term > 0 || lease.holder != self.identity => {
                &lease.holder
            }
            (Role::Standby, _) => "",
        }
    }

    /// Pause before the next look if nothing is heard meanwhile: not longer than `retry`, and ending when the Lease that a
    /// standby has seen runs out.
    #[must_use]
    pub fn pause(&self, retry: Duration, now: Duration) -> Duration {
        match (&self.role, &self.seen) {
            (Role::Standby, Some(Seen { lease, since, .. })) => match (*since + self.respected(lease)).checked_sub(now)
            {
                Some(left) if !left.is_zero() => retry.min(left),
                _ => retry,
            },
            _ => retry,
        }
    }

    /// The one transition function: see the table above. A passed deadline comes before everything else.
    pub fn step(&mut self, input: LeaseInput, now: Duration) -> LeaseOutput {
        if let LeaseInput::Read(Some(lease)) | LeaseInput::Wrote { lease, .. } = &input {
            // A term that is not counted shows at least that somebody may have led.
            let counted = if self.believes(lease) { lease.term } else { 1 };
            self.highest = self.highest.max(counted);
            match &input {
                // An answer that has waited while this process slept says nothing about the present.
                LeaseInput::Wrote { asked, .. } if now > *asked + self.settings.duration => {}
                input => self.date(lease, matches!(input, LeaseInput::Wrote { .. }), now),
            }
        }
        match self.role {
            Role::Leader { term, until } if now >= until => self.depose(term, Deposition::NotRenewed),
            Role::Leader { term, .. } => self.step_leader(term, input),
            Role::Standby => self.step_standby(input, now),
        }
    }

    fn step_leader(&mut self, term: u64, input: LeaseInput) -> LeaseOutput {
        match input {
            LeaseInput::Read(None) => self.depose(term, Deposition::Missing),
            // The Lease was deleted, and created by somebody else already. Other software may have led in between, so that it
            // waits like anyone.
            LeaseInput::Read(Some(lease)) if lease.is_vacant() => self.depose(term, Deposition::Missing),
            LeaseInput::Read(Some(lease)) if lease.holder == self.identity && lease.term == term => {
                LeaseOutput::Write(LeaseWrite { resource_version: Some(lease.resource_version), term, acquires: false })
            }
            LeaseInput::Read(Some(_)) => self.depose(term, Deposition::Taken),
            LeaseInput::Wrote { lease, asked } => {
                if lease.holder != self.identity || lease.term != term {
                    return self.depose(term, Deposition::Taken);
                }
                self.role = Role::Leader { term, until: asked + self.settings.renew_deadline };
                self.renewed = Some(asked);
                LeaseOutput::Wait
            }
            LeaseInput::Failed | LeaseInput::Time => LeaseOutput::Wait,
        }
    }

    fn step_standby(&mut self, input: LeaseInput, now: Duration) -> LeaseOutput {
        match input {
            LeaseInput::Read(None) => {
                self.distrust = None;
                // Not if the answer is lost: a Lease that is read later may have been created after others had led.
                self.first = self.highest == 0;
                vacate(None)
            }
            LeaseInput::Read(Some(lease)) => {
                self.first = false;
                self.doubt_what_was_not_watched(&lease, now);
                // A Lease that names us while we do not lead is from an earlier life, or from a write whose answer was
                // lost: nobody else acts on it, and the raised term shuts out what that life left behind.
                let named = lease.holder.is_empty() || lease.holder == self.identity;
                self.distrust = self.distrusts(&lease, now);
                let respected = self.respected(&lease);
                let stood_by = self.believes(&lease) && self.is_latest(&lease) && !self.was_away(&lease, now);
                match (lease.origin, stood_by) {
                    (TermOrigin::Led | TermOrigin::Vacant, false) => {
                        // A leader by this Lease would be seen to renew it.
                        let stands = self.stands(&lease, self.settings.renew_deadline / 2, now);
                        if named || stands { vacate(Some(lease.resource_version)) } else { LeaseOutput::Wait }
                    }
                    (TermOrigin::Led, true) if named => self.acquire(lease),
                    _ if self.stands(&lease, respected, now) => self.acquire(lease),
                    _ => LeaseOutput::Wait,
                }
            }
            LeaseInput::Wrote { lease, .. } if self.may_be_first(&lease) => self.acquire(lease),
            LeaseInput::Wrote { lease, asked } => {
                let until = asked + self.settings.renew_deadline;
                if lease.term == 0 || lease.holder != self.identity || now >= until || lease.term <= self.led {
                    return LeaseOutput::Wait;
                }
                self.seen = None;
                self.distrust = None;
                self.led = lease.term;
                self.renewed = Some(asked);
                self.role = Role::Leader { term: lease.term, until };
                LeaseOutput::Elected { term: lease.term }
            }
            LeaseInput::Failed | LeaseInput::Time => LeaseOutput::Wait,
        }
    }

    /// True if a Lease is our own vacant one, created when no earlier leader was known, and none is known now.
    fn may_be_first(&self, lease: &LeaseView) -> bool {
        self.first && self.highest == 0 && lease.is_vacant() && lease.holder == self.identity
    }

    fn acquire(&mut self, lease: LeaseView) -> LeaseOutput {
        let above_all = match lease.resource_version.parse() {
            Ok(version) if lease.origin != TermOrigin::Led && version <= MOST_FIRST_TERM => version,
            _ => 0,
        };
        let term = above_all.max(self.highest + 1);
        if !is_plausible_term(term) {
            self.distrust = Some(Distrust::TermsUsedUp { term });
            return LeaseOutput::Wait;
        }
        LeaseOutput::Write(LeaseWrite { resource_version: Some(lease.resource_version), term, acquires: true })
    }

    /// True if a Lease has been seen unchanged for `duration`, by our clock alone.
    fn stands(&mut self, lease: &LeaseView, duration: Duration, now: Duration) -> bool {
        match &mut self.seen {
            Some(seen) if seen.lease.is_still(lease) => {
                seen.looked = now;
                now >= seen.since + duration
            }
            _ => {
                self.seen = Some(Seen { lease: lease.clone(), since: now, looked: now });
                false
            }
        }
    }

    /// Doubts a Lease that stood while we did not look: it may have been another in between, and be out of a backup now.
    fn doubt_what_was_not_watched(&mut self, lease: &LeaseView, now: Duration) {
        let missed = |seen: &Seen| seen.lease.is_still(lease) && now > seen.looked + self.settings.unwatched();
        if self.seen.as_ref().is_some_and(missed) {
            self.seen = None;
            self.doubted = lease.version().or(self.doubted);
        }
    }

    /// True if a Lease names us from so long ago that others may have led in between, of whom a backup knows nothing.
    fn was_away(&self, lease: &LeaseView, now: Duration) -> bool {
        let away = self.renewed.map_or(lease.stale, |asked| now > asked + self.settings.duration);
        away && lease.origin == TermOrigin::Led && lease.holder == self.identity
    }

    /// Takes note of a Lease's version: a version is not out of a backup if we wrote it, if it is fresh, or if it came while
    /// we looked.
    fn date(&mut self, lease: &LeaseView, wrote: bool, now: Duration) {
        let Some(version) = lease.version() else { return };
        let came = |seen: &Seen| seen.lease.version() < Some(version) && now <= seen.looked + self.settings.unwatched();
        let watched = self.seen.as_ref().is_some_and(came);
        if wrote || (version > self.known && (watched || !lease.stale)) {
            (self.known, self.doubted) = (version, None);
        } else if version != self.known {
            self.doubted = Some(version);
        }
    }

    /// True if a Lease is known to be none out of a backup. Versions that are no numbers count as the latest.
    fn is_latest(&self, lease: &LeaseView) -> bool {
        lease.version().is_none_or(|version| version == self.known && self.doubted.is_none())
    }

    fn depose(&mut self, term: u64, why: Deposition) -> LeaseOutput {
        self.role = Role::Standby;
        self.seen = None;
        LeaseOutput::Deposed { term, why }
    }
}

/// The write that makes the Lease vacant: no replica leads by it.
fn vacate(resource_version: Option<String>) -> LeaseOutput {
    LeaseOutput::Write(LeaseWrite { resource_version, term: 0, acquires: false })
}

#[cfg(test)]
mod tests;
