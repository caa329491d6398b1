//! Progress of a Deployment's restart in a drain, and the time at which it is given up.
//!
//! ```text
//! begins ─► asking ─┬─► restarted ── its new pod has not come in ten minutes ──┐
//!             ▲     ├─► never ◄────────────────────────────────────────────────┤
//!             └─────┴── waits: looked at again, ten minutes at most ───────────┘
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

/// The pause before a Deployment that is rolling out already is checked again.
pub const AGAIN: Duration = Duration::from_secs(10);
/// Longest wait for a rollout, before ours and in ours: then its pods are evicted as any others.
pub const LONGEST: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing has been requested yet.
    Begins,
    /// The API server is being asked.
    Asking,
    /// It was restarted; that has been known since this time.
    Restarted(Duration),
    /// It has to wait; it is checked again at this time.
    Waits(Duration),
    /// It will not be restarted, or its new pods did not come; its pods are evicted.
    Never,
}

/// The API server's answer to a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartAnswer {
    /// It is restarted now.
    Restarted,
    /// It had been restarted before, in this drain.
    Known,
    /// It has to wait, for this reason.
    Waits(String),
    /// It cannot be restarted, for this reason.
    Never(String),
}

/// A report about a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The Deployment was restarted.
    Restarted,
    /// It moves nothing, for this reason: these pods, by uid, are evicted as any others.
    Never(String, Vec<String>),
}

/// State of a Deployment's restart in a drain. Times are of the monotonic clock.
#[derive(Clone, Debug)]
pub struct RestartProgress {
    state: State,
    since: Duration,
    /// The reason that it waits, if it does.
    why: Option<String>,
    /// Its pods on the Node, by uid, which the cluster state has been told go by it.
    pods: BTreeSet<String>,
}

impl RestartProgress {
    /// A restart that is to be asked for.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self { state: State::Begins, since: now, why: None, pods: BTreeSet::new() }
    }

    /// True if pods go by it.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.state != State::Never
    }

    /// Its state, for people.
    #[must_use]
    pub fn description(&self) -> &str {
        match (self.state, &self.why) {
            (State::Restarted(_), _) => "it was restarted",
            (_, Some(why)) => why,
            _ => "it is being restarted",
        }
    }

    /// Adds a pod that goes by it. Answers true if that is new.
    pub fn add(&mut self, uid: &str) -> bool {
        self.pods.insert(uid.to_owned())
    }

    /// True if the API server is to be asked now; it then counts as asked.
    pub fn asks(&mut self, now: Duration) -> bool {
        let due = match self.state {
            State::Begins => true,
            State::Waits(again) => again <= now,
            State::Asking | State::Restarted(_) | State::Never => false,
        };
        if due {
            self.state = State::Asking;
        }
        due
    }

    /// Takes in an answer.
    pub fn answered(&mut self, answer: RestartAnswer, now: Duration) -> Option<News> {
        match answer {
            RestartAnswer::Restarted => {
                self.state = State::Restarted(now);
                Some(News::Restarted)
            }
            RestartAnswer::Known => {
                self.state = State::Restarted(now);
                None
            }
            RestartAnswer::Waits(why) if now.saturating_sub(self.since) < LONGEST => {
                (self.state, self.why) = (State::Waits(now + AGAIN), Some(why));
                None
            }
            RestartAnswer::Waits(why) | RestartAnswer::Never(why) => Some(self.never(why)),
        }
    }

    /// Gives it up if it was restarted and pods are still there after [`LONGEST`].
    pub fn give_up(&mut self, now: Duration) -> Option<News> {
        match self.state {
            State::Restarted(since) if now.saturating_sub(since) >= LONGEST => {
                let minutes = LONGEST.as_secs() / 60;
                Some(self.never(format!("it was restarted, and its new pod did not come within {minutes} minutes")))
            }
            _ => None,
        }
    }

    fn never(&mut self, why: String) -> News {
        self.state = State::Never;
        News::Never(why, std::mem::take(&mut self.pods).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// One that was asked for at 0, for the pod `a`.
    fn asked() -> RestartProgress {
        let mut one = RestartProgress::new(at(0));
        assert!(one.asks(at(0)) && one.add("a"));
        one
    }

    #[test]
    fn it_is_asked_for_once_and_each_pod_is_added_once() {
        let mut one = asked();
        assert!(!one.asks(at(1)) && !one.asks(at(60)), "an answer is to come");
        assert!(!one.add("a") && one.add("b"));
        assert_eq!(one.answered(RestartAnswer::Restarted, at(2)), Some(News::Restarted));
        assert_eq!((one.moves(), one.asks(at(60)), one.description()), (true, false, "it was restarted"));
    }

    #[test]
    fn restart_without_new_pod_is_given_up_once_after_ten_minutes() {
        for answer in [RestartAnswer::Restarted, RestartAnswer::Known] {
            let mut one = asked();
            let _ = one.answered(answer, at(100));
            assert_eq!(one.give_up(at(699)), None);
            let Some(News::Never(why, pods)) = one.give_up(at(700)) else { panic!("it is waited for without end") };
            assert!(why.contains("did not come within 10 minutes"), "{why}");
            assert_eq!((pods, one.moves()), (vec!["a".to_owned()], false));
            assert_eq!((one.give_up(at(2000)), one.asks(at(2000))), (None, false));
        }
    }

    #[test]
    fn running_rollout_is_retried_every_ten_seconds_for_ten_minutes() {
        let mut one = asked();
        let mut now = 1;
        let mut asked = 0;
        let news = loop {
            if let Some(news) = one.answered(RestartAnswer::Waits("it is rolling out already".into()), at(now)) {
                break news;
            }
            assert_eq!((one.asks(at(now + 9)), one.description()), (false, "it is rolling out already"));
            now += 10;
            asked += usize::from(one.asks(at(now)));
            assert_eq!(one.description(), "it is rolling out already", "the same while it is asked");
        };
        assert_eq!((now, asked), (601, 60));
        assert_eq!(news, News::Never("it is rolling out already".into(), vec!["a".into()]));
        assert!(!one.moves());
    }

    #[test]
    fn time_before_a_restart_does_not_count_towards_its_limit() {
        let mut one = asked();
        assert_eq!(one.answered(RestartAnswer::Waits("later".into()), at(580)), None);
        assert!(one.asks(at(590)));
        assert_eq!(one.answered(RestartAnswer::Restarted, at(590)), Some(News::Restarted));
        assert_eq!(one.give_up(at(1189)), None);
        assert!(one.give_up(at(1190)).is_some());
    }
}
