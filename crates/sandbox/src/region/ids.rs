//! Ids: drawn from the seed where AWS draws them, derived from a name where they have to be the same in each run.

use std::fmt::Write as _;

/// Hexadecimal digits drawn from a generator.
pub(crate) fn hex(rng: &mut fastrand::Rng, digits: usize) -> String {
    (0..digits).filter_map(|_| char::from_digit(rng.u32(0..16), 16)).collect()
}

/// An id of EC2's long form: `i-0` and 16 digits.
pub(crate) fn resource(rng: &mut fastrand::Rng, prefix: &str) -> String {
    format!("{prefix}-0{}", hex(rng, 16))
}

/// A random UUID of version 4.
pub(crate) fn uuid(rng: &mut fastrand::Rng) -> String {
    let d = hex(rng, 31);
    let variant = ['8', '9', 'a', 'b'][rng.usize(0..4)];
    format!("{}-{}-4{}-{variant}{}-{}", &d[..8], &d[8..12], &d[12..15], &d[15..18], &d[18..30])
}

/// A number that follows from a text, the same on every machine.
pub(crate) fn fnv(text: &str) -> u64 {
    dovetail_api::hash::fnv(text.bytes())
}

/// An id of EC2's long form that follows from a name.
pub(crate) fn named(prefix: &str, name: &str) -> String {
    let mut id = format!("{prefix}-0");
    // Writing to a String cannot fail.
    let _ = write!(id, "{:016x}", fastrand::Rng::with_seed(fnv(name)).u64(..));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_aws_s_form() {
        let mut rng = fastrand::Rng::with_seed(1);
        let id = resource(&mut rng, "i");
        assert!(id.starts_with("i-0") && id.len() == 19 && id[2..].chars().all(|c| c.is_ascii_hexdigit()), "{id}");
        assert_eq!(named("ami", "x"), named("ami", "x"));
        assert_eq!(named("ami", "x").len(), 21);
        let uuid = uuid(&mut rng);
        assert_eq!((uuid.len(), uuid.as_bytes()[14]), (36, b'4'));
    }
}
