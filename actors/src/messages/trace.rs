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
    fn what_is_written_is_read_and_nonsense_is_not() {
        let context = TraceContext::root(&mut fastrand::Rng::with_seed(1));
        assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        for bad in ["", "00-1-2-01", "00-00000000000000000000000000000000-0000000000000001-01"] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }
}
