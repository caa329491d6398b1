//! W3C trace context, carried by messages and written on NodeClaims.

use std::fmt;

use dovetail_api::hash::fnv;

/// Trace that a message belongs to, and the span that sent it.
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

    /// The trace of something that has an id of its own, a UUID as a rule (a pod's uid, an announcement's id): the same id
    /// is the same trace and the same first span, whoever reads it.
    pub fn of_event(id: &str, rng: &mut fastrand::Rng) -> Self {
        let uuid = (id.len() == 36).then(|| uuid(id)).flatten();
        match uuid.filter(|trace| *trace != 0) {
            Some(trace) => Self { trace, span: 0 }.inner("", ""),
            None => Self::root(rng),
        }
    }

    /// A span of the same trace inside this one. The same name and key are the same span, whoever makes it: so that what
    /// one replica has begun another can end, and a simulation draws no numbers for it.
    pub fn inner(&self, name: &str, key: &str) -> Self {
        let (trace, span) = (self.trace.to_be_bytes(), self.span.to_be_bytes());
        let parts = [&trace, &span[..], name.as_bytes(), b"/", key.as_bytes()];
        let mut hash = fnv(parts.into_iter().flatten().copied());
        // FNV alone leaves like keys close to one another (the finaliser of SplitMix64).
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self { trace: self.trace, span: (hash ^ (hash >> 31)).max(1) }
    }

    /// The trace's id: 32 hex digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// The trace's id.
    pub fn trace(&self) -> u128 {
        self.trace
    }

    /// The span's id.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Reads a `traceparent`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        // `from_str_radix` takes a sign, too.
        let are_hex = [version, trace, span].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if version.len() != 2 || version == "ff" || trace.len() != 32 || span.len() != 16 || !are_hex {
            return None;
        }
        let context = Self { trace: u128::from_str_radix(trace, 16).ok()?, span: u64::from_str_radix(span, 16).ok()? };
        (context.trace != 0 && context.span != 0).then_some(context)
    }
}

/// The number that a UUID is written for.
fn uuid(text: &str) -> Option<u128> {
    let mut digits = [0_u8; 32];
    let mut count = 0;
    for byte in text.bytes().filter(|byte| *byte != b'-') {
        *digits.get_mut(count)? = Some(byte).filter(u8::is_ascii_hexdigit)?;
        count += 1;
    }
    let digits = std::str::from_utf8(&digits).ok().filter(|_| count == 32)?;
    u128::from_str_radix(digits, 16).ok()
}

/// The context as a `traceparent`, sampled.
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
        let spans = [(); 2].map(|()| TraceContext::of_event(id, &mut rng).span());
        assert_eq!(spans[0], spans[1]);
        for other in [
            "",
            "x",
            "7b1c0c522f0a4d4e9a550a4f6c0e1d01",
            "7b1c0c52-2f0a-4d4e-9a55-0a4f6c0e1dxx",
            "00000000-0000-0000-0000-000000000000",
        ] {
            assert_ne!(TraceContext::of_event(other, &mut rng).trace_id(), "0".repeat(32), "{other}");
        }
    }

    #[test]
    fn a_span_s_name_and_key_are_its_id_inside_another() {
        let context = TraceContext::root(&mut fastrand::Rng::with_seed(1));
        let inner = context.inner("launch", "a");
        assert_eq!((inner, inner.trace()), (context.inner("launch", "a"), context.trace()));
        let others = [context.inner("launch", "b"), context.inner("drain", "a"), inner.inner("launch", "a"), context];
        assert!(others.iter().all(|other| other.span() != inner.span()));
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
