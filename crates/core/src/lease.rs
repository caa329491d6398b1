//! Who leads: the decisions of leader election on a `coordination.k8s.io/v1` Lease (design, "Safety" 1).
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
//! | standby | read: perhaps out of a backup; given back, ours, or not renewed for a while | write (update), vacant |
//! | standby | read: other software's, and unchanged for its duration and ours, whoever holds it | write (update), with the term above all |
//! | standby | read: none | write (create), vacant |
//! | standby | wrote a vacant one, is told so, and nobody is known to have led | write (update) with the first term |
//! | standby | read: vacant and unchanged for its duration; or at once by who led until the one before was gone | write (update) with the term raised |
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
//! vacant Lease carries a mark, as does one that Dovetail has taken ([`Origin`]); what carries none is taken only when it
//! has stood unchanged, whoever holds it, with a term that begins anew above all.
//!
//! An API server that is restored from a backup shows the Lease as it was: whom it names may have been followed by others,
//! one of whom may lead until it notices, and terms have gone higher. So a Lease that is older than one this replica knows,
//! or that it has not seen written and that was renewed long ago ([`LeaseView::stale`]), or that stood while it did not
//! look, is as good as deleted: it is made vacant, which who leads by it after all would take back at once.
//!
//! Invariants: LE-1 a leader's deadline lies before the time at which a standby that saw its last write may take over;
//! LE-2 every acquisition raises the term, by the same identity too; LE-3 every write carries the resourceVersion last read or written.

use std::time::Duration;

use serde::Serialize;

/// `leaseTransitions` is an int32; a new Lease leaves half of it for what comes after.
const MOST_FIRST_TERM: u64 = 1 << 30;
/// No term comes near the end of an int32 by being raised: one that does was not written by a leader.
const MOST_TERM: u64 = (1 << 31) - (1 << 20);

/// Whether a leader can have had such a term. One that cannot would leave no room for those that follow.
#[must_use]
pub fn is_plausible_term(term: u64) -> bool {
    term <= MOST_TERM
}

/// The durations of an election; the defaults are client-go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseSettings {
    /// How long others respect a lease that is not renewed; written on the Lease.
    pub duration: Duration,
    /// How long a leader acts after the request that last renewed it was sent. Shorter than `duration`.
    pub renew_deadline: Duration,
    /// Pause between two looks.
    pub retry: Duration,
}

impl LeaseSettings {
    /// Longest wait for one answer: two of them and a pause fit into the deadline.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.renew_deadline.saturating_sub(self.retry) / 2
    }

    /// A Lease that was renewed so long ago is stale ([`LeaseView::stale`]).
    #[must_use]
    pub fn stale_after(&self) -> Duration {
        self.duration
    }
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A Lease as read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseView {
    /// Who holds it; empty when it was released.
    pub holder: String,
    /// `leaseTransitions`: the term; 0 when it is new.
    pub term: u64,
    /// `leaseDurationSeconds`.
    pub duration: Duration,
    /// `metadata.resourceVersion`: changes with every write.
    pub resource_version: String,
    /// Whose count its term is.
    pub origin: Origin,
    /// Its `renewTime` is long ago by the reader's wall clock: it may be out of a backup. A clock that is wrong costs a
    /// wait, or a few terms.
    pub stale: bool,
}

/// Where a Lease's count of terms comes from: told by a mark on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Created vacant by a Dovetail, and taken by nobody yet.
    Vacant,
    /// Taken by a Dovetail once: its count is above every earlier term.
    Led,
    /// Created by other software, or by a release that set no mark: its count may have begun anew.
    Foreign,
}

impl LeaseView {
    fn is_vacant(&self) -> bool {
        self.origin == Origin::Vacant
    }

    /// Of versions that are no numbers it is not known which is older.
    fn version(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }

    /// Whether nobody has written it in between.
    fn is_still(&self, other: &Self) -> bool {
        Self { stale: self.stale, ..other.clone() } == *self
    }
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseWrite {
    /// The resourceVersion it rests on; `None` creates the Lease.
    pub resource_version: Option<String>,
    /// `leaseTransitions`.
    pub term: u64,
    /// Whether it takes the Lease rather than renews it: `acquireTime` is then set.
    pub acquires: bool,
}

impl LeaseWrite {
    /// The mark that goes with it.
    #[must_use]
    pub fn origin(&self) -> Origin {
        if self.term == 0 { Origin::Vacant } else { Origin::Led }
    }
}

/// What has happened. Times are CLOCK_BOOTTIME's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseInput {
    /// The Lease as it stands, read no longer than [`LeaseSettings::patience`] ago; `None`: there is no such object.
    Read(Option<LeaseView>),
    /// Our write was accepted; `asked` is from before the request was sent.
    Wrote {
        /// The Lease that came back.
        lease: LeaseView,
        /// When the request was sent, or earlier.
        asked: Duration,
    },
    /// Our write was refused (conflict), or nobody knows (time-out, 5xx), or a read failed.
    Failed,
    /// Nothing but time has passed.
    Time,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseOutput {
    /// Write the Lease now.
    Write(LeaseWrite),
    /// This replica leads.
    Elected {
        /// Its term.
        term: u64,
    },
    /// It no longer does.
    Deposed {
        /// The term that has ended.
        term: u64,
        /// Why.
        why: Deposition,
    },
    /// Nothing; look again after the retry time.
    Wait,
}

/// Why a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deposition {
    /// The deadline passed without a renewal.
    NotRenewed,
    /// The Lease names another holder or another term.
    Taken,
    /// The Lease is gone.
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
    /// The version last seen that may be out of one.
    doubted: Option<u64>,
    /// The deadline that this replica had when it found its Lease gone: until then nobody else leads.
    bereft: Option<Duration>,
    /// It has created the Lease, knowing of nobody who ever led: it need not wait for anyone.
    first: bool,
    /// Highest term known from any source.
    highest: u64,
    /// Highest term that this replica has led: an answer that comes late must not begin it again.
    led: u64,
    /// When it asked for what last made or kept it leader.
    renewed: Option<Duration>,
}

/// A Lease, since when it has been seen unchanged, and when it was looked at last.
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
            bereft: None,
            first: false,
            highest: 0,
            led: 0,
            renewed: None,
        }
    }

    /// Tells of a term seen elsewhere (on a NodeClaim): a recreated Lease starts above it. One that no leader can have had
    /// is not heeded.
    pub fn saw_term(&mut self, term: u64) {
        if is_plausible_term(term) {
            self.highest = self.highest.max(term);
        }
    }

    /// Ends this replica's term before its deadline, as when the API server has refused its writes. The term that ends, if
    /// it leads.
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

    /// Who holds the Lease as far as is known, empty when nobody.
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

    /// How long to wait before the next look where nothing is heard meanwhile: not longer than `retry`, and a standby is
    /// there when the Lease that it saw runs out.
    #[must_use]
    pub fn pause(&self, retry: Duration, now: Duration) -> Duration {
        match (&self.role, &self.seen) {
            (Role::Standby, Some(Seen { lease, since, .. })) if *since + lease.duration > now => {
                retry.min(*since + lease.duration - now)
            }
            _ => retry,
        }
    }

    /// The one transition function: see the table above. A passed deadline comes before everything else.
    pub fn step(&mut self, input: LeaseInput, now: Duration) -> LeaseOutput {
        if let LeaseInput::Read(Some(lease)) | LeaseInput::Wrote { lease, .. } = &input {
            // The Lease's own count is raised in any case: there is no other way on.
            self.highest = self.highest.max(lease.term);
            match &input {
                // An answer that has waited while we slept says nothing of what stands now.
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
            LeaseInput::Read(None) => self.bereave(term),
            // Deleted, and created by somebody else already.
            LeaseInput::Read(Some(lease)) if lease.is_vacant() => self.bereave(term),
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
                // Not if the answer is lost: what is read later may be a creation that came after others had led.
                self.first = self.highest == 0;
                vacate(None)
            }
            LeaseInput::Read(Some(lease)) => {
                self.doubt_what_was_not_watched(&lease, now);
                // A Lease that names us while we do not lead is from an earlier life, or from a write whose answer was
                // lost: nobody else acts on it, and the raised term shuts out what that life left behind.
                let named = lease.holder.is_empty() || lease.holder == self.identity;
                match (lease.origin, self.is_latest(&lease) && !self.was_away(&lease, now)) {
                    (Origin::Led | Origin::Vacant, false) => {
                        // Who leads by it is seen to renew it.
                        let stands = self.stands(&lease, self.settings.renew_deadline / 2, now);
                        if named || stands { vacate(Some(lease.resource_version)) } else { LeaseOutput::Wait }
                    }
                    (Origin::Led, true) if named => self.acquire(lease),
                    (Origin::Vacant, true) if self.bereft.is_some_and(|until| now < until) => self.acquire(lease),
                    // client-go shortens the duration when it releases: of no use to who has led before.
                    (Origin::Foreign, _) => {
                        let duration = lease.duration.max(self.settings.duration);
                        if self.stands(&lease, duration, now) { self.acquire(lease) } else { LeaseOutput::Wait }
                    }
                    _ if self.stands(&lease, lease.duration, now) => self.acquire(lease),
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
                self.led = lease.term;
                self.renewed = Some(asked);
                self.role = Role::Leader { term: lease.term, until };
                LeaseOutput::Elected { term: lease.term }
            }
            LeaseInput::Failed | LeaseInput::Time => LeaseOutput::Wait,
        }
    }

    /// Whether a Lease is our own vacant one, created when nobody was known to have led, and nobody is known now.
    fn may_be_first(&self, lease: &LeaseView) -> bool {
        self.first && self.highest == 0 && lease.is_vacant() && lease.holder == self.identity
    }

    fn acquire(&self, lease: LeaseView) -> LeaseOutput {
        let above_all = match lease.resource_version.parse() {
            Ok(version) if lease.origin != Origin::Led && version <= MOST_FIRST_TERM => version,
            _ => 0,
        };
        let term = above_all.max(self.highest + 1);
        LeaseOutput::Write(LeaseWrite { resource_version: Some(lease.resource_version), term, acquires: true })
    }

    /// The Lease that this replica leads by is gone.
    fn bereave(&mut self, term: u64) -> LeaseOutput {
        self.bereft = self.leads().map(|(_, until)| until);
        self.depose(term, Deposition::Missing)
    }

    /// Whether a Lease has been seen unchanged for so long, by our clock alone.
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

    /// What stood while we did not look may have been another in between, and is out of a backup now.
    fn doubt_what_was_not_watched(&mut self, lease: &LeaseView, now: Duration) {
        let missed = |seen: &Seen| seen.lease.is_still(lease) && now > seen.looked + self.settings.duration;
        if self.seen.as_ref().is_some_and(missed) {
            self.seen = None;
            self.doubted = lease.version().or(self.doubted);
        }
    }

    /// Whether a Lease names us from so long ago that others may have led in between, of whom a backup knows nothing.
    fn was_away(&self, lease: &LeaseView, now: Duration) -> bool {
        let away = self.renewed.map_or(lease.stale, |asked| now > asked + self.settings.duration);
        away && lease.origin == Origin::Led && lease.holder == self.identity
    }

    /// Takes note of a Lease's version: what we wrote, what is fresh and what has come while we looked is not out of a backup.
    fn date(&mut self, lease: &LeaseView, wrote: bool, now: Duration) {
        let Some(version) = lease.version() else { return };
        let came = |seen: &Seen| seen.lease.version() < Some(version) && now <= seen.looked + self.settings.duration;
        let watched = self.seen.as_ref().is_some_and(came);
        if wrote || (version > self.known && (watched || !lease.stale)) {
            (self.known, self.doubted) = (version, None);
        } else if version != self.known {
            self.doubted = Some(version);
        }
    }

    /// Whether a Lease is known to be none out of a backup. Of versions that are no numbers nothing is known.
    fn is_latest(&self, lease: &LeaseView) -> bool {
        lease.version().is_none_or(|version| version == self.known && self.doubted.is_none())
    }

    fn depose(&mut self, term: u64, why: Deposition) -> LeaseOutput {
        self.role = Role::Standby;
        self.seen = None;
        LeaseOutput::Deposed { term, why }
    }
}

/// Nobody leads by what is written.
fn vacate(resource_version: Option<String>) -> LeaseOutput {
    LeaseOutput::Write(LeaseWrite { resource_version, term: 0, acquires: false })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(holder: &str, term: u64, version: &str) -> LeaseView {
        let origin = if term == 0 { Origin::Vacant } else { Origin::Led };
        LeaseView {
            holder: holder.into(),
            term,
            duration: at(15),
            resource_version: version.into(),
            origin,
            stale: false,
        }
    }

    fn foreign(holder: &str, term: u64, version: &str) -> LeaseView {
        LeaseView { origin: Origin::Foreign, ..lease(holder, term, version) }
    }

    fn elected(identity: &str, term: u64, asked: u64) -> Election {
        let mut election = Election::new(identity, LeaseSettings::default());
        let output =
            election.step(LeaseInput::Wrote { lease: lease(identity, term, "1"), asked: at(asked) }, at(asked));
        assert_eq!(output, LeaseOutput::Elected { term });
        election
    }

    const VACANT: LeaseWrite = LeaseWrite { resource_version: None, term: 0, acquires: false };

    fn taken(version: &str, term: u64) -> LeaseOutput {
        LeaseOutput::Write(LeaseWrite { resource_version: Some(version.into()), term, acquires: true })
    }

    #[test]
    fn a_standby_is_there_when_the_lease_that_it_saw_runs_out() {
        let retry = LeaseSettings::default().retry;
        let mut standby = Election::new("b", LeaseSettings::default());
        assert_eq!(standby.pause(retry, at(0)), retry, "it has seen nothing");
        let fresh = LeaseInput::Read(Some(lease("a", 3, "7")));
        assert_eq!(standby.step(fresh.clone(), at(100)), LeaseOutput::Wait);
        assert_eq!(standby.pause(retry, at(100)), retry);
        assert_eq!(standby.pause(retry, at(114)), at(1), "fifteen seconds after it was seen");
        assert_eq!(standby.step(fresh, at(115)), taken("7", 4));
        assert_eq!(standby.pause(retry, at(115)), retry, "somebody else was faster: not at once again");
        assert_eq!(elected("a", 3, 0).pause(retry, at(9)), retry, "a leader renews in time");
    }

    #[test]
    fn le_2_a_missing_lease_is_created_vacant_and_its_first_term_is_above_every_other() {
        for (version, remembered, first) in [("900", 7, 900), ("900", 2000, 2001), ("what", 7, 8), ("4294967296", 7, 8)]
        {
            let mut election = Election::new("a", LeaseSettings::default());
            election.saw_term(remembered);
            assert_eq!(election.step(LeaseInput::Read(None), at(0)), LeaseOutput::Write(VACANT));
            let vacant = lease("a", 0, version);
            let wrote = LeaseInput::Wrote { lease: vacant.clone(), asked: at(0) };
            assert_eq!((election.step(wrote, at(1)), election.leads()), (LeaseOutput::Wait, None));
            assert_eq!(election.step(LeaseInput::Read(Some(vacant.clone())), at(1)), LeaseOutput::Wait);
            assert_eq!(election.step(LeaseInput::Read(Some(vacant.clone())), at(15)), LeaseOutput::Wait);
            assert_eq!(election.step(LeaseInput::Read(Some(vacant)), at(16)), taken(version, first));
        }
    }

    #[test]
    fn the_first_lease_of_a_cluster_is_taken_at_once_with_a_term_that_nobody_can_have_had() {
        let mut election = Election::new("a", LeaseSettings::default());
        assert_eq!(election.step(LeaseInput::Read(None), at(0)), LeaseOutput::Write(VACANT));
        let own = lease("a", 0, "246");
        let wrote = LeaseInput::Wrote { lease: own.clone(), asked: at(0) };
        assert_eq!(election.clone().step(wrote, at(1)), taken("246", 246));
        let read = LeaseInput::Read(Some(own.clone()));
        assert_eq!(election.clone().step(read, at(1)), LeaseOutput::Wait, "nobody knows when it was created");
        let others = LeaseInput::Read(Some(lease("b", 0, "246")));
        assert_eq!(election.clone().step(others, at(1)), LeaseOutput::Wait, "another was faster");
        election.saw_term(7);
        assert_eq!(election.step(LeaseInput::Read(Some(own)), at(1)), LeaseOutput::Wait, "somebody has led after all");
    }

    #[test]
    fn le_1_a_deleted_lease_is_taken_by_who_held_it_at_once_and_by_others_when_that_one_must_have_noticed() {
        let (mut leader, mut standby) = (elected("a", 3, 0), Election::new("b", LeaseSettings::default()));
        standby.step(LeaseInput::Read(Some(lease("a", 3, "1"))), at(0));
        assert_eq!(standby.step(LeaseInput::Read(None), at(1)), LeaseOutput::Write(VACANT));
        let vacant = LeaseInput::Read(Some(lease("b", 0, "60")));
        assert_eq!(standby.step(vacant.clone(), at(1)), LeaseOutput::Wait);
        let deposed = LeaseOutput::Deposed { term: 3, why: Deposition::Missing };
        assert_eq!(leader.step(vacant.clone(), at(2)), deposed);
        assert_eq!(leader.step(vacant.clone(), at(4)), taken("60", 60));
        assert_eq!(leader.step(vacant.clone(), at(10)), LeaseOutput::Wait, "its deadline is over");
        assert_eq!(standby.step(vacant.clone(), at(15)), LeaseOutput::Wait);
        assert_eq!(standby.step(vacant, at(16)), taken("60", 60));
    }

    #[test]
    fn le_1_a_lease_that_other_software_has_created_and_holds_is_not_vacant_though_it_counts_from_0() {
        let mut leader = elected("a", 3, 0);
        let karpenter = LeaseInput::Read(Some(foreign("karpenter", 0, "60")));
        let deposed = LeaseOutput::Deposed { term: 3, why: Deposition::Taken };
        assert_eq!(leader.step(karpenter.clone(), at(2)), deposed);
        for second in 2..17 {
            let renewed = LeaseInput::Read(Some(foreign("karpenter", 0, &second.to_string())));
            assert_eq!(leader.step(renewed, at(second)), LeaseOutput::Wait, "it renews");
        }
        assert_eq!(leader.step(karpenter.clone(), at(17)), LeaseOutput::Wait);
        assert_eq!(leader.step(karpenter, at(32)), taken("60", 60), "above the term that was before it");
        // It gives back what it has counted anew: that says nothing of who led before.
        let mut standby = Election::new("b", LeaseSettings::default());
        standby.saw_term(900);
        let released = LeaseView { duration: at(1), ..foreign("", 1, "80") };
        for second in 0..15 {
            let read = LeaseInput::Read(Some(released.clone()));
            assert_eq!(standby.step(read, at(second)), LeaseOutput::Wait);
        }
        assert_eq!(standby.step(LeaseInput::Read(Some(released)), at(15)), taken("80", 901));
    }

    #[test]
    fn a_term_that_no_leader_can_have_had_does_not_stop_the_next() {
        let mut election = Election::new("a", LeaseSettings::default());
        election.saw_term(u64::from(u32::MAX >> 1));
        election.saw_term(u64::MAX);
        assert_eq!(election.step(LeaseInput::Read(None), at(0)), LeaseOutput::Write(VACANT));
        let own = LeaseInput::Wrote { lease: lease("a", 0, "246"), asked: at(0) };
        assert_eq!(election.step(own, at(1)), taken("246", 246));
    }

    #[test]
    fn who_resigns_stands_by_and_comes_back_with_a_higher_term() {
        let mut election = elected("a", 3, 0);
        assert_eq!((election.resign(), election.leads(), election.resign()), (Some(3), None, None));
        assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 3, "5"))), at(1)), taken("5", 4));
    }

    /// As a Lease is read out of a backup, or long after it was renewed.
    fn stale(holder: &str, term: u64, version: &str) -> LeaseInput {
        LeaseInput::Read(Some(LeaseView { stale: true, ..lease(holder, term, version) }))
    }

    #[test]
    fn le_1_a_restored_lease_that_names_us_is_made_vacant_and_taken_when_who_led_since_has_noticed() {
        let mut earlier = elected("a", 3, 0);
        for (version, second) in [("20", 2), ("30", 4)] {
            earlier.step(LeaseInput::Wrote { lease: lease("a", 3, version), asked: at(second) }, at(second));
        }
        earlier.step(LeaseInput::Time, at(90));
        // Others have led, by versions that nobody here has seen.
        assert_eq!(earlier.step(stale("a", 3, "20"), at(90)), vacate(Some("20".into())));
        let fresh = LeaseInput::Read(Some(lease("a", 3, "20")));
        assert_eq!(earlier.step(fresh, at(91)), vacate(Some("20".into())), "a backup of just now");
        let vacant = lease("a", 0, "900");
        earlier.step(LeaseInput::Wrote { lease: vacant.clone(), asked: at(91) }, at(91));
        let read = LeaseInput::Read(Some(vacant));
        assert_eq!(earlier.step(read.clone(), at(93)), LeaseOutput::Wait);
        assert_eq!(earlier.step(read.clone(), at(107)), LeaseOutput::Wait);
        assert_eq!(earlier.step(read, at(108)), taken("900", 900));
        let wrote = LeaseInput::Wrote { lease: lease("a", 900, "10"), asked: at(108) };
        assert_eq!(earlier.step(wrote, at(108)), LeaseOutput::Elected { term: 900 }, "versions may begin anew");
        earlier.step(LeaseInput::Time, at(118));
        let own = LeaseInput::Read(Some(lease("a", 900, "11")));
        assert_eq!(earlier.clone().step(own.clone(), at(123)), taken("11", 901), "nobody can have followed");
        assert_eq!(earlier.step(own, at(124)), vacate(Some("11".into())), "somebody may have");
    }

    #[test]
    fn le_1_a_lease_of_an_earlier_life_is_taken_at_once_only_while_nobody_can_have_followed() {
        for holder in ["a", ""] {
            let mut election = Election::new("a", LeaseSettings::default());
            assert_eq!(election.clone().step(LeaseInput::Read(Some(lease(holder, 3, "9"))), at(0)), taken("9", 4));
            assert_eq!(election.step(stale(holder, 3, "9"), at(0)), vacate(Some("9".into())));
        }
        // Somebody else's is made vacant when it is seen not to be renewed.
        let mut election = Election::new("a", LeaseSettings::default());
        assert_eq!(election.step(stale("b", 3, "9"), at(0)), LeaseOutput::Wait);
        assert_eq!(election.step(stale("b", 3, "9"), at(4)), LeaseOutput::Wait);
        assert_eq!(election.step(stale("b", 3, "9"), at(5)), vacate(Some("9".into())));
    }

    #[test]
    fn a_clock_that_is_wrong_does_not_keep_a_standby_from_taking_what_is_given_back_or_runs_out() {
        let mut standby = Election::new("b", LeaseSettings::default());
        for (version, second) in [("20", 0), ("30", 2)] {
            assert_eq!(standby.step(stale("a", 3, version), at(second)), LeaseOutput::Wait);
        }
        assert_eq!(standby.clone().step(stale("", 3, "40"), at(3)), taken("40", 4));
        assert_eq!(standby.step(stale("a", 3, "30"), at(16)), LeaseOutput::Wait);
        assert_eq!(standby.step(stale("a", 3, "30"), at(17)), taken("30", 4));
    }

    #[test]
    fn le_1_what_stood_while_a_standby_slept_may_be_out_of_a_backup() {
        let mut standby = Election::new("b", LeaseSettings::default());
        let read = LeaseInput::Read(Some(lease("a", 3, "20")));
        assert_eq!(standby.step(read.clone(), at(0)), LeaseOutput::Wait);
        assert_eq!(standby.step(read.clone(), at(16)), LeaseOutput::Wait);
        assert_eq!(standby.step(read, at(21)), vacate(Some("20".into())));
    }

    #[test]
    fn le_1_each_lease_that_is_deleted_makes_all_wait_anew() {
        let mut standby = Election::new("b", LeaseSettings::default());
        standby.step(LeaseInput::Read(Some(lease("a", 3, "1"))), at(0));
        for (version, from) in [("60", 10), ("61", 24), ("62", 38)] {
            let vacant = LeaseInput::Read(Some(lease("c", 0, version)));
            assert_eq!(standby.step(vacant.clone(), at(from)), LeaseOutput::Wait);
            assert_eq!(standby.step(vacant, at(from + 14)), LeaseOutput::Wait);
        }
    }

    #[test]
    fn le_1_a_lease_is_taken_over_only_when_seen_unchanged_for_its_duration() {
        let mut election = Election::new("b", LeaseSettings::default());
        assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 3, "1"))), at(0)), LeaseOutput::Wait);
        assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 3, "2"))), at(14)), LeaseOutput::Wait);
        assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 3, "2"))), at(28)), LeaseOutput::Wait);
        let write = LeaseWrite { resource_version: Some("2".into()), term: 4, acquires: true };
        assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 3, "2"))), at(29)), LeaseOutput::Write(write));
    }

    #[test]
    fn le_1_a_leader_that_cannot_renew_ends_before_another_can_begin() {
        let settings = LeaseSettings::default();
        let mut leader = elected("a", 1, 0);
        let mut standby = Election::new("b", settings);
        // The standby can see the write no earlier than it was sent.
        standby.step(LeaseInput::Read(Some(lease("a", 1, "1"))), at(0));
        let mut ended = None;
        for second in 0..40 {
            if let LeaseOutput::Deposed { why, .. } = leader.step(LeaseInput::Failed, at(second)) {
                assert_eq!(why, Deposition::NotRenewed);
                ended.get_or_insert(second);
            }
            let step = standby.step(LeaseInput::Read(Some(lease("a", 1, "1"))), at(second));
            assert!(ended.is_some() || !matches!(step, LeaseOutput::Write(_)), "two leaders at {second}");
        }
        assert_eq!(ended, Some(10));
    }

    #[test]
    fn le_2_the_same_identity_raises_the_term_when_it_comes_back() {
        let mut election = Election::new("a", LeaseSettings::default());
        let write = LeaseWrite { resource_version: Some("9".into()), term: 6, acquires: true };
        assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 5, "9"))), at(0)), LeaseOutput::Write(write));
    }

    #[test]
    fn le_3_a_renewal_rests_on_the_version_read_and_keeps_the_term() {
        let mut election = elected("a", 2, 0);
        let write = LeaseWrite { resource_version: Some("5".into()), term: 2, acquires: false };
        assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 2, "5"))), at(2)), LeaseOutput::Write(write));
        election.step(LeaseInput::Wrote { lease: lease("a", 2, "6"), asked: at(2) }, at(5));
        assert_eq!(election.leads(), Some((2, at(12))));
    }

    #[test]
    fn a_leader_that_reads_another_holder_or_term_or_nothing_is_deposed() {
        for (read, why) in [
            (Some(lease("b", 3, "2")), Deposition::Taken),
            (Some(lease("a", 3, "2")), Deposition::Taken),
            (None, Deposition::Missing),
        ] {
            let mut election = elected("a", 2, 0);
            assert_eq!(election.step(LeaseInput::Read(read), at(1)), LeaseOutput::Deposed { term: 2, why });
            assert_eq!(election.leads(), None);
        }
    }

    #[test]
    fn a_pause_past_the_deadline_deposes_whatever_is_heard_first() {
        let mut election = elected("a", 2, 0);
        let output = election.step(LeaseInput::Wrote { lease: lease("a", 2, "3"), asked: at(2) }, at(60));
        assert_eq!(output, LeaseOutput::Deposed { term: 2, why: Deposition::NotRenewed });
    }

    #[test]
    fn le_2_a_renewal_that_is_answered_after_the_end_does_not_begin_the_term_again() {
        let mut election = elected("a", 2, 0);
        election.step(LeaseInput::Time, at(10));
        let output = election.step(LeaseInput::Wrote { lease: lease("a", 2, "3"), asked: at(9) }, at(11));
        assert_eq!((output, election.leads()), (LeaseOutput::Wait, None));
    }

    #[test]
    fn an_acquisition_whose_answer_comes_too_late_does_not_elect() {
        let mut election = Election::new("a", LeaseSettings::default());
        let output = election.step(LeaseInput::Wrote { lease: lease("a", 1, "1"), asked: at(0) }, at(10));
        assert_eq!(output, LeaseOutput::Wait);
        assert_eq!(election.leads(), None);
    }
}
