//! Rates of Savings Plans: asked for once a plan and week, for a bounded time, and kept where they cannot be asked for again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dovetail_core::commitments::{AccountAnswer, WrittenCommitment};
use tokio::time::timeout;

use crate::error::CloudError;

/// Time after which a plan's rates are asked for again. They hold as long as it lasts.
const ASKED_AGAIN: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most plans whose rates are asked for at once: those of the others follow with later answers.
const AT_ONCE: usize = 20;
/// Time that all of them take at most: the plans themselves are waited for.
const LONGEST: Duration = Duration::from_secs(10);

/// Rates in dollars an hour, by instance type.
pub(super) type Rates = Arc<BTreeMap<String, f64>>;

/// Rates that are known, by plan.
#[derive(Default)]
pub(super) struct PlanRates(Mutex<BTreeMap<String, PlanEntry>>);

#[derive(Default)]
struct PlanEntry {
    /// None before the first answer.
    rates: Rates,
    /// Times of the last answer and of the last question. Monotonic.
    answered: Option<Duration>,
    asked: Option<Duration>,
}

impl PlanRates {
    /// Adds the plans' own rates to an answer, and asks for those that are due; those asked for longest ago come first.
    pub async fn add_to<F>(&self, answer: &mut AccountAnswer, now: Duration, ask: impl Fn(String) -> F)
    where
        F: Future<Output = Result<Rates, CloudError>>,
    {
        let due = self.due(&answer.found, now);
        let asked = timeout(LONGEST, self.ask_all(due, now, ask)).await;
        let late = || Some(format!("they took more than {} seconds", LONGEST.as_secs()));
        answer.without_rates = asked.unwrap_or_else(|_| late());
        let known = self.known();
        for plan in &mut answer.found {
            plan.rates = known.get(&plan.id).map(|own| own.rates.clone()).unwrap_or_default();
        }
    }

    /// Ids of the plans to ask for. Those that are gone are forgotten, unless all are: that may be a mistake.
    fn due(&self, plans: &[WrittenCommitment], now: Duration) -> Vec<String> {
        let ids: BTreeSet<&String> = plans.iter().map(|plan| &plan.id).collect();
        let mut known = self.known();
        if !ids.is_empty() {
            known.retain(|id, _| ids.contains(id));
        }
        let answered = |id: &String| known.get(id).and_then(|own| own.answered);
        let is_due = |id: &&String| answered(id).is_none_or(|at| now.saturating_sub(at) >= ASKED_AGAIN);
        let mut due: Vec<_> = ids.into_iter().filter(is_due).cloned().collect();
        due.sort_by_key(|id| known.get(id).and_then(|own| own.asked));
        due.truncate(AT_ONCE);
        due
    }

    /// Asks for one after the other until a call fails; returns the reason that rates are not known, if some are not.
    async fn ask_all<F>(&self, ids: Vec<String>, now: Duration, ask: impl Fn(String) -> F) -> Option<String>
    where
        F: Future<Output = Result<Rates, CloudError>>,
    {
        let mut without = None;
        for id in ids {
            self.known().entry(id.clone()).or_default().asked = Some(now);
            match ask(id.clone()).await {
                Ok(rates) if rates.is_empty() => without = Some(format!("AWS names none of {id}")),
                Ok(rates) => {
                    let mut known = self.known();
                    let own = known.entry(id).or_default();
                    (own.rates, own.answered) = (rates, Some(now));
                }
                Err(error) => return Some(error.to_string()),
            }
        }
        without
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, PlanEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use serde_json::json;

    use super::*;

    type Answer = BoxFuture<'static, Result<Rates, CloudError>>;

    fn plans(count: usize) -> AccountAnswer {
        let plan = |at| json!({"id": format!("s-{at:02}"), "type": "computeSavingsPlan", "dollarsPerHour": 1.0});
        let found = serde_json::from_value((0..count).map(plan).collect()).unwrap();
        AccountAnswer { found, ..AccountAnswer::default() }
    }

    fn answered(rates: &[(&str, f64)]) -> Answer {
        let rates = rates.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect();
        std::future::ready(Ok(Arc::new(rates))).boxed()
    }

    fn failed() -> Answer {
        std::future::ready(Err(CloudError::invalid("DescribeSavingsPlanRates", "Throttling", "slowly"))).boxed()
    }

    async fn added(known: &PlanRates, count: usize, day: u64, ask: impl Fn(String) -> Answer) -> AccountAnswer {
        let mut answer = plans(count);
        known.add_to(&mut answer, Duration::from_secs(day * 24 * 3600), ask).await;
        answer
    }

    fn with_rates(answer: &AccountAnswer) -> usize {
        answer.found.iter().filter(|plan| !plan.rates.is_empty()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn plans_do_not_wait_longer_for_their_rates() {
        let slow = |id: String| {
            async move {
                tokio::time::sleep(Duration::from_secs(4)).await;
                answered(&[(&*id, 0.05)]).await
            }
            .boxed()
        };
        let (known, begun) = (PlanRates::default(), tokio::time::Instant::now());
        let first = added(&known, 5, 0, slow).await;
        assert_eq!((begun.elapsed().as_secs(), first.found.len(), with_rates(&first)), (10, 5, 2));
        assert!(first.without_rates.unwrap().contains("10 seconds"));
        let second = added(&known, 5, 0, slow).await;
        assert_eq!(with_rates(&second), 4, "the others follow");
        let third = added(&known, 5, 0, slow).await;
        assert_eq!((with_rates(&third), third.without_rates), (5, None));
    }

    #[tokio::test]
    async fn rates_are_kept_where_asking_again_fails() {
        let (known, calls) = (PlanRates::default(), AtomicUsize::new(0));
        let asked = |answer: fn() -> Answer| {
            let calls = &calls;
            move |_| {
                calls.fetch_add(1, Ordering::Relaxed);
                answer()
            }
        };
        let first = added(&known, 1, 0, asked(|| answered(&[("m5.large", 0.05)]))).await;
        assert_eq!(first.without_rates, None);
        let kept = added(&known, 1, 6, asked(failed)).await;
        assert_eq!((&kept, calls.load(Ordering::Relaxed)), (&first, 1), "a week long nothing is asked");
        for again in [failed as fn() -> Answer, || answered(&[])] {
            let later = added(&known, 1, 8, asked(again)).await;
            assert_eq!(later.found, first.found);
            assert!(later.without_rates.is_some());
        }
        added(&known, 0, 8, asked(failed)).await;
        let new = added(&known, 1, 8, asked(|| answered(&[("m5.large", 0.04)]))).await;
        assert_eq!((new.found[0].rates["m5.large"], new.without_rates), (0.04, None));
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn an_empty_answer_is_said_and_not_kept() {
        let known = PlanRates::default();
        let none = added(&known, 1, 0, |_| answered(&[])).await;
        assert!(none.without_rates.unwrap().contains("s-00"));
        let some = added(&known, 1, 0, |_| answered(&[("m5.large", 0.05)])).await;
        assert_eq!((with_rates(&some), some.without_rates), (1, None));
    }

    #[tokio::test]
    async fn plans_without_rates_do_not_keep_others_from_theirs() {
        let known = PlanRates::default();
        let ask = |id: String| if id.as_str() < "s-20" { answered(&[]) } else { answered(&[("m5.large", 0.05)]) };
        assert_eq!(with_rates(&added(&known, 25, 0, ask).await), 0);
        assert_eq!(with_rates(&added(&known, 25, 1, ask).await), 5);
    }
}
