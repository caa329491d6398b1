//! W3C trace context, carried by messages and written on NodeClaims.

use std::fmt;

/// Which trace a message belongs to, and the span that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
}

impl TraceContext {
    /// A new trace.
    pub fn root(rng: &mut fastrand::Rng) -> Self {
        Self { trace: rng.u128(1..), span: rng.u64(1..) }
    }

    /// The trace of something that has an id of its own, a UUID as a rule: the same id is the same trace, whoever reads
    /// it.
    pub fn of_event(id: &str, rng: &mut fastrand::Rng) -> Self {
        let digits: String = id.chars().filter(|one| *one != '-').collect();
        let uuid = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
        match uuid.filter(|trace| *trace != 0) {
            Some(trace) => Self { trace, span: rng.u64(1..) },
            None => Self::root(rng),
        }
    }

    /// A new span of the same trace.
    pub fn child(&self, rng: &mut fastrand::Rng) -> Self {
        Self { trace: self.trace, span: rng.u64(1..) }
    }

    /// The trace's id: 32 hex digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Reads a `traceparent`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        if version.len() != 2 || trace.len() != 32 || span.len() != 16 {
            return None;
        }
        let context = Self { trace: u128::from_str_radix(trace, 16).ok()?, span: u64::from_str_radix(span, 16).ok()? };
        (context.trace != 0 && context.span != 0).then_some(context)
    }
}

/// `traceparent`, sampled.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn an_event_s_id_is_its_trace() {
        let mut rng = fastrand::Rng::with_seed(1);
        let id = "7b1c0c52-2f0a-4d4e-9a55-0a4f6c0e1d01";
        let traces = [(); 2].map(|()| TraceContext::of_event(id, &mut rng).trace_id());
        assert_eq!(traces, ["7b1c0c522f0a4d4e9a550a4f6c0e1d01"; 2]);
        for other in ["", "x", "00000000-0000-0000-0000-000000000000"] {
            assert_ne!(TraceContext::of_event(other, &mut rng).trace_id(), "0".repeat(32), "{other}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_nonsense_is_not() {
        let context = TraceContext::root(&mut fastrand::Rng::with_seed(1));
        assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        for bad in ["", "00-1-2-01", "00-00000000000000000000000000000000-0000000000000001-01"] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }
}
