//! Choice of the spans that are kept: a share of all traces, by their ids; and of the rest those in which something went wrong or
//! was slow, from the moment that it did, with what is remembered of before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::ExportedSpan;

/// A span that takes longer is slow: a node is there sooner as a rule. Nanoseconds.
pub const SLOW: u64 = 120_000_000_000;
/// Spans of traces not kept that are remembered.
const MOST_REMEMBERED: usize = 4096;
/// Traces known to be kept.
const MOST_KEPT: usize = 4096;

/// Sorts spans out.
#[derive(Debug)]
pub struct Sampler {
    /// Traces whose low 56 bits are below are kept.
    below: u64,
    kept: BTreeSet<u128>,
    kept_order: VecDeque<u128>,
    /// By trace, the latest spans of traces that are not kept.
    remembered: BTreeMap<u128, Vec<ExportedSpan>>,
    order: VecDeque<u128>,
    /// Spans that have been let go for good.
    forgotten: u64,
}

impl Sampler {
    /// Keeps this share of all traces.
    pub fn new(ratio: f64) -> Self {
        let below = if ratio >= 1.0 { u64::MAX } else { (ratio.max(0.0) * (1_u64 << 56) as f64) as u64 };
        Self {
            below,
            kept: BTreeSet::new(),
            kept_order: VecDeque::new(),
            remembered: BTreeMap::new(),
            order: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Takes a span; answers what is to be sent because of it.
    pub fn sample(&mut self, span: ExportedSpan) -> Vec<ExportedSpan> {
        let low = (span.trace & ((1 << 56) - 1)) as u64;
        if low < self.below || self.kept.contains(&span.trace) {
            return vec![span];
        }
        let remarkable = span.error.is_some() || span.ended.saturating_sub(span.begun) >= SLOW;
        let trace = span.trace;
        if remarkable {
            self.keep_trace(trace);
            let mut sent = self.remembered.remove(&trace).unwrap_or_default();
            self.order.retain(|other| *other != trace);
            sent.push(span);
            return sent;
        }
        self.order.push_back(trace);
        self.remembered.entry(trace).or_default().push(span);
        if self.order.len() > MOST_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.forget_first(oldest);
        }
        Vec::new()
    }

    /// Number of spans let go for good so far.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn forget_first(&mut self, trace: u128) {
        let Some(spans) = self.remembered.get_mut(&trace) else { return };
        if !spans.is_empty() {
            spans.remove(0);
            self.forgotten += 1;
        }
        if spans.is_empty() {
            self.remembered.remove(&trace);
        }
    }

    fn keep_trace(&mut self, trace: u128) {
        if self.kept.insert(trace) {
            self.kept_order.push_back(trace);
        }
        if self.kept_order.len() > MOST_KEPT
            && let Some(oldest) = self.kept_order.pop_front()
        {
            self.kept.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(trace: u128, seconds: u64, error: Option<&str>) -> ExportedSpan {
        ExportedSpan {
            trace,
            span: 1,
            parent: 0,
            name: "a",
            scope: "b",
            begun: 0,
            ended: seconds * 1_000_000_000,
            remote: false,
            attributes: Vec::new(),
            links: Vec::new(),
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn a_share_of_all_traces_is_kept_by_their_ids() {
        let mut sampler = Sampler::new(0.25);
        let mut rng = fastrand_like(1);
        let kept = (0..4000).filter(|_| !sampler.sample(span(rng(), 1, None)).is_empty()).count();
        assert!((900..1100).contains(&kept), "{kept}");
        let mut all = Sampler::new(1.0);
        assert!((0..100).all(|_| all.sample(span(rng(), 1, None)).len() == 1));
    }

    #[test]
    fn trace_with_an_error_or_slow_span_is_kept_whole() {
        for remarkable in [span(7, 1, Some("refused")), span(7, 121, None)] {
            let mut sampler = Sampler::new(0.0);
            assert!(sampler.sample(span(7, 1, None)).is_empty());
            assert!(sampler.sample(span(8, 1, None)).is_empty());
            assert_eq!(sampler.sample(remarkable).len(), 2);
            assert_eq!(sampler.sample(span(7, 1, None)).len(), 1);
            assert!(sampler.sample(span(8, 119, None)).is_empty());
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_however_much_comes() {
        let mut sampler = Sampler::new(0.0);
        for trace in 0..20_000 {
            sampler.sample(span(trace % 3000, 1, None));
        }
        let remembered: usize = sampler.remembered.values().map(Vec::len).sum();
        assert_eq!((remembered, sampler.order.len()), (MOST_REMEMBERED, MOST_REMEMBERED));
        assert_eq!(sampler.forgotten(), 20_000 - MOST_REMEMBERED as u64);
        for trace in 0..20_000 {
            sampler.sample(span(trace, 1, Some("x")));
        }
        assert_eq!((sampler.kept.len(), sampler.order.len()), (MOST_KEPT, 0));
    }

    /// Numbers that look drawn, the same every time.
    fn fastrand_like(seed: u64) -> impl FnMut() -> u128 {
        let mut state = seed;
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            u128::from(mixed ^ (mixed >> 31))
        }
    }
}
