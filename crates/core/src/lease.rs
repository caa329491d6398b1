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
//! | standby | read: nobody's, ours, or unchanged for its duration | write (update) with the term raised |
//! | standby | read: none, and nobody is known to have led | write (create) with the first term |
//! | standby | read: none, for a lease's duration; or at once by who led until it was gone | write (create) with the term raised |
//! | standby | read: somebody's and fresh, or none of late | wait |
//! | standby | wrote | leader of that term until ask + deadline |
//! | standby | refused, unknown | read again |
//! | leader | time at or past the deadline | deposed |
//! | leader | read: still ours, same term | write (renew) |
//! | leader | read: another's, or another term, or none | deposed |
//! | leader | wrote | deadline moves |
//! | leader | refused, unknown | read again; the deadline stands |
//!
//! Invariants: LE-1 a leader's deadline lies before the time at which a standby that saw its last write may take over;
//! LE-2 every acquisition raises the term, by the same identity too; LE-3 every write carries the resourceVersion read.

use std::time::Duration;

use serde::Serialize;

/// The durations of an election; the defaults are client-go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// How long others respect a lease that is not renewed; written on the Lease.
    pub duration: Duration,
    /// How long a leader acts after the request that last renewed it was sent. Shorter than `duration`.
    pub renew_deadline: Duration,
    /// Pause between two looks.
    pub retry: Duration,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it; empty when it was released.
    pub holder: String,
    /// `leaseTransitions`: the term.
    pub term: u64,
    /// `leaseDurationSeconds`.
    pub duration: Duration,
    /// `metadata.resourceVersion`: changes with every write.
    pub resource_version: String,
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseWrite {
    /// The resourceVersion it rests on; `None` creates the Lease.
    pub resource_version: Option<String>,
    /// `leaseTransitions`.
    pub term: u64,
    /// Whether it takes the Lease rather than renews it: `acquireTime` is then set.
    pub acquires: bool,
}

/// What has happened. Times are CLOCK_BOOTTIME's.
#[derive(Clone, Debug)]
pub enum LeaseInput {
    /// The Lease as it stands; `None`: there is no such object.
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
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    settings: LeaseSettings,
    role: Role,
    /// The Lease last seen held by another, and since when it has been seen unchanged.
    seen: Option<(LeaseView, Duration)>,
    /// Since when there has been no Lease though somebody has led: whoever did may not have noticed yet.
    missing: Option<Duration>,
    /// The deadline that this replica had when it found its Lease gone: until then nobody else leads.
    bereft: Option<Duration>,
    /// Highest term known from any source.
    highest: u64,
    /// Highest term that this replica has led: an answer that comes late must not begin it again.
    led: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            missing: None,
            bereft: None,
            highest: 0,
            led: 0,
        }
    }

    /// Tells of a term seen elsewhere (on a NodeClaim): a recreated Lease starts above it.
    pub fn saw_term(&mut self, term: u64) {
        self.highest = self.highest.max(term);
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
            (Role::Standby, Some((lease, _))) => &lease.holder,
            (Role::Standby, None) => "",
        }
    }

    /// The one transition function: see the table above. A passed deadline comes before everything else.
    pub fn step(&mut self, input: LeaseInput, now: Duration) -> LeaseOutput {
        if let LeaseInput::Read(Some(lease)) | LeaseInput::Wrote { lease, .. } = &input {
            self.highest = self.highest.max(lease.term);
            self.missing = None;
        }
        match self.role {
            Role::Leader { term, until } if now >= until => self.depose(term, Deposition::NotRenewed),
            Role::Leader { term, .. } => self.step_leader(term, input),
            Role::Standby => self.step_standby(input, now),
        }
    }

    fn step_leader(&mut self, term: u64, input: LeaseInput) -> LeaseOutput {
        match input {
            LeaseInput::Read(None) => {
                self.bereft = self.leads().map(|(_, until)| until);
                self.depose(term, Deposition::Missing)
            }
            LeaseInput::Read(Some(lease)) if lease.holder == self.identity && lease.term == term => {
                LeaseOutput::Write(LeaseWrite { resource_version: Some(lease.resource_version), term, acquires: false })
            }
            LeaseInput::Read(Some(_)) => self.depose(term, Deposition::Taken),
            LeaseInput::Wrote { lease, asked } => {
                if lease.holder != self.identity || lease.term != term {
                    return self.depose(term, Deposition::Taken);
                }
                self.role = Role::Leader { term, until: asked + self.settings.renew_deadline };
                LeaseOutput::Wait
            }
            LeaseInput::Failed | LeaseInput::Time => LeaseOutput::Wait,
        }
    }

    fn step_standby(&mut self, input: LeaseInput, now: Duration) -> LeaseOutput {
        match input {
            LeaseInput::Read(None) => {
                let ours = self.bereft.is_some_and(|until| now < until);
                let since = *self.missing.get_or_insert(now);
                let free = self.highest == 0 || ours || now >= since + self.settings.duration;
                if free { self.acquire(None) } else { LeaseOutput::Wait }
            }
            LeaseInput::Read(Some(lease)) => {
                // A Lease that names us while we do not lead is from an earlier life, or from a write whose answer was
                // lost: nobody else acts on it, and the raised term shuts out whatever that life left behind.
                let free = lease.holder.is_empty() || lease.holder == self.identity || self.expired(&lease, now);
                if free { self.acquire(Some(lease.resource_version)) } else { LeaseOutput::Wait }
            }
            LeaseInput::Wrote { lease, asked } => {
                let until = asked + self.settings.renew_deadline;
                if lease.holder != self.identity || now >= until || lease.term <= self.led {
                    return LeaseOutput::Wait;
                }
                self.seen = None;
                self.led = lease.term;
                self.role = Role::Leader { term: lease.term, until };
                LeaseOutput::Elected { term: lease.term }
            }
            LeaseInput::Failed | LeaseInput::Time => LeaseOutput::Wait,
        }
    }

    fn acquire(&self, resource_version: Option<String>) -> LeaseOutput {
        LeaseOutput::Write(LeaseWrite { resource_version, term: self.highest + 1, acquires: true })
    }

    /// Whether a Lease has been seen unchanged for its own duration, by our clock alone.
    fn expired(&mut self, lease: &LeaseView, now: Duration) -> bool {
        match &self.seen {
            Some((seen, since)) if seen == lease => now >= *since + lease.duration,
            _ => {
                self.seen = Some((lease.clone(), now));
                false
            }
        }
    }

    fn depose(&mut self, term: u64, why: Deposition) -> LeaseOutput {
        self.role = Role::Standby;
        self.seen = None;
        LeaseOutput::Deposed { term, why }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(holder: &str, term: u64, version: &str) -> LeaseView {
        LeaseView { holder: holder.into(), term, duration: at(15), resource_version: version.into() }
    }

    fn elected(identity: &str, term: u64, asked: u64) -> Election {
        let mut election = Election::new(identity, LeaseSettings::default());
        let output =
            election.step(LeaseInput::Wrote { lease: lease(identity, term, "1"), asked: at(asked) }, at(asked));
        assert_eq!(output, LeaseOutput::Elected { term });
        election
    }

    #[test]
    fn a_missing_lease_is_created_above_the_highest_term_known() {
        let mut election = Election::new("a", LeaseSettings::default());
        election.saw_term(7);
        let write = LeaseWrite { resource_version: None, term: 8, acquires: true };
        assert_eq!(election.step(LeaseInput::Read(None), at(0)), LeaseOutput::Wait);
        assert_eq!(election.step(LeaseInput::Read(None), at(15)), LeaseOutput::Write(write));
    }

    #[test]
    fn the_first_lease_of_a_cluster_is_created_at_once() {
        let mut election = Election::new("a", LeaseSettings::default());
        let write = LeaseWrite { resource_version: None, term: 1, acquires: true };
        assert_eq!(election.step(LeaseInput::Read(None), at(0)), LeaseOutput::Write(write));
    }

    #[test]
    fn le_1_a_deleted_lease_is_created_by_who_held_it_at_once_and_by_others_when_that_one_must_have_noticed() {
        let (mut leader, mut standby) = (elected("a", 3, 0), Election::new("b", LeaseSettings::default()));
        standby.step(LeaseInput::Read(Some(lease("a", 3, "1"))), at(0));
        assert_eq!(standby.step(LeaseInput::Read(None), at(1)), LeaseOutput::Wait);
        let deposed = LeaseOutput::Deposed { term: 3, why: Deposition::Missing };
        assert_eq!(leader.step(LeaseInput::Read(None), at(2)), deposed);
        let write = LeaseWrite { resource_version: None, term: 4, acquires: true };
        assert_eq!(leader.step(LeaseInput::Read(None), at(4)), LeaseOutput::Write(write.clone()));
        assert_eq!(leader.step(LeaseInput::Read(None), at(10)), LeaseOutput::Wait, "its deadline is over");
        assert_eq!(standby.step(LeaseInput::Read(None), at(15)), LeaseOutput::Wait);
        assert_eq!(standby.step(LeaseInput::Read(None), at(16)), LeaseOutput::Write(write));
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
