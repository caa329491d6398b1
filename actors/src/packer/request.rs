//! Request for a packing, and its trace.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::context::traces;
use crate::messages::TraceContext;

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) batch: Option<(BTreeSet<String>, Duration)>,
    pub(super) trace: TraceContext,
    /// True for a packing without a request: its trace is one of its own, unless one is found that led to it.
    pub(super) own: bool,
    /// Traces of what was merged into it.
    pub(super) also: Vec<TraceContext>,
}

impl Request {
    pub(super) fn new(trace: TraceContext, batch: Option<(BTreeSet<String>, Duration)>) -> Self {
        Self { batch, trace, own: false, also: Vec::new() }
    }

    pub(super) fn traces(&self) -> impl Iterator<Item = TraceContext> + '_ {
        let asked = (!self.own).then_some(self.trace);
        asked.into_iter().chain(self.also.iter().copied())
    }

    pub(super) fn merge(&mut self, other: Self) {
        if self.own && !other.own {
            (self.trace, self.own) = (other.trace, false);
        } else if !other.own && other.trace.trace() != self.trace.trace() && self.also.len() < traces::MOST_LINKS {
            self.also.push(other.trace);
        }
        self.also.extend(other.also);
        self.also.truncate(traces::MOST_LINKS);
        match (&mut self.batch, other.batch) {
            (Some((pods, waited)), Some((more, longer))) => {
                pods.extend(more);
                *waited = (*waited).max(longer);
            }
            (own @ None, Some(batch)) => *own = Some(batch),
            (_, None) => {}
        }
    }
}
