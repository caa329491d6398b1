//! Kubernetes quantity text (`250m`, `1.5Gi`, `1e3`) to exact integers and back, without floating point.

use dovetail_api::quantity::{suffix_power, with_binary_suffix, with_decimal_suffix};
use thiserror::Error;

/// The reason that a quantity was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not a number with a known suffix.
    #[error(
        "bad quantity {text:?}: {problem} (allowed: a decimal number, then nothing, n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)"
    )]
    Malformed {
        /// The text as it was written.
        text: String,
        /// The fault in it.
        problem: &'static str,
    },
    /// Below zero, where only zero and more make sense.
    #[error("bad quantity {text:?}: negative (allowed: zero and more)")]
    Negative {
        /// The text as it was written.
        text: String,
    },
}

/// Mantissa from which further digits are only checked for being zero.
const MOST_DIGITS: i128 = 1_000_000_000_000_000_000;

/// A number as it is written: `mantissa * 10^ten`; `more` is true if nonzero digits were left out.
struct Digits<'a> {
    mantissa: i128,
    ten: i64,
    more: bool,
    suffix: &'a str,
}

/// Parses a quantity into `scale`-ths of a unit (1 for whole units, 1000 for thousandths), rounding up as kube-scheduler
/// does. One beyond 2^63-1 of them counts as 2^63-1, as Kubernetes caps quantities: it is more than there is anywhere.
/// Negative quantities are an error: nothing here can be below zero.
///
/// # Errors
/// [`QuantityError`] for text that is no quantity, or below zero.
pub fn parse(text: &str, scale: i64) -> Result<i64, QuantityError> {
    let malformed = |problem| QuantityError::Malformed { text: text.to_owned(), problem };
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
        None => return Err(malformed("empty")),
    };
    let number = digits(rest);
    let written = &rest[..rest.len() - number.suffix.len()];
    if !written.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(malformed("no digits"));
    }
    let (ten, two) = power_of(number.suffix).ok_or_else(|| malformed("unknown suffix"))?;
    let nothing = number.mantissa == 0 && !number.more;
    if negative && !nothing {
        return Err(QuantityError::Negative { text: text.to_owned() });
    }
    Ok(if nothing { 0 } else { scaled(number.mantissa, number.ten.saturating_add(ten), two, scale, number.more) })
}

/// The digits before the suffix, as far as they count.
fn digits(text: &str) -> Digits<'_> {
    let mut number = Digits { mantissa: 0, ten: 0, more: false, suffix: "" };
    let mut point = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' if number.mantissa >= MOST_DIGITS => {
                number.more |= byte != b'0';
                number.ten += i64::from(!point);
            }
            b'0'..=b'9' => {
                number.mantissa = number.mantissa * 10 + i128::from(byte - b'0');
                number.ten -= i64::from(point);
            }
            b'.' if !point => point = true,
            _ => {
                number.suffix = &text[at..];
                break;
            }
        }
    }
    number
}

/// Powers of ten and of two that a suffix or an exponent stands for.
fn power_of(suffix: &str) -> Option<(i64, u32)> {
    suffix_power(suffix).or_else(|| Some((suffix.strip_prefix(['e', 'E']).and_then(exponent)?, 0)))
}

/// An exponent; one that does not fit is cut to the largest that matters.
fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    const FAR: i64 = 1_000_000;
    let power = digits.parse().unwrap_or(FAR).min(FAR);
    Some(if text.starts_with('-') { -power } else { power })
}

/// `mantissa * 10^ten * 2^two * scale`, and a little `more`, rounded up; the largest number there is where it does not fit.
fn scaled(mantissa: i128, ten: i64, two: u32, scale: i64, more: bool) -> i64 {
    let Some(value) = mantissa.checked_mul(i128::from(scale)).and_then(|value| value.checked_mul(1i128 << two)) else {
        // A number beyond 128 bits: floating point is exact enough.
        let exponent = i32::try_from(ten).unwrap_or(i32::MIN);
        let value = mantissa as f64 * scale as f64 * (1i128 << two) as f64 * 10f64.powi(exponent);
        return (value.ceil() as i64).max(1);
    };
    let power = u32::try_from(ten.unsigned_abs()).ok().and_then(|ten| 10i128.checked_pow(ten));
    let value = match (power, ten >= 0) {
        (Some(power), true) => value.saturating_mul(power).saturating_add(more.into()),
        (None, true) => i128::MAX,
        (Some(power), false) => value / power + i128::from(more || value % power != 0),
        // A divisor beyond 10^38 leaves a value above zero and not above one: one, rounded up.
        (None, false) => 1,
    };
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Canonical text of `value` thousandths in decimal form: `250m`, `2`, `10k`.
#[must_use]
pub fn format_milli(value: i64) -> String {
    if value % 1000 == 0 { format_decimal(value / 1000) } else { format!("{value}m") }
}

/// Canonical text in decimal form: `40`, `10k`, `3M`.
#[must_use]
pub fn format_decimal(value: i64) -> String {
    with_decimal_suffix(value.into())
}

/// Canonical text in binary form: `100`, `256Mi`, `3Gi`.
#[must_use]
pub fn format_binary(value: i64) -> String {
    with_binary_suffix(value.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_means_what_kubernetes_says() {
        let cases = [
            ("250m", 1000, 250),
            ("0.25", 1000, 250),
            ("2", 1000, 2000),
            ("1u", 1000, 1),
            ("1500n", 1, 1),
            ("10M", 1000, 10_000_000_000),
            ("1.5Gi", 1, 1_610_612_736),
            ("10000000Gi", 1, 10_737_418_240_000_000),
            ("1e3", 1, 1000),
            ("1E3", 1, 1000),
            ("1E", 1, 1_000_000_000_000_000_000),
            ("12E-1", 1, 2),
            (".5", 1000, 500),
            ("5.", 1, 5),
            ("+7k", 1, 7000),
            ("-0", 1, 0),
            ("0.0000000000000000000000000000001", 1, 1),
        ];
        for (text, scale, value) in cases {
            assert_eq!(parse(text, scale), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_and_says_what_is_allowed() {
        for text in ["", "m", ".", "1x", "1 Gi", "1gi", "1.2.3", "one", "1e", "1e+", "1e1x", "0x10", "١"] {
            let message = parse(text, 1).unwrap_err().to_string();
            assert!(message.contains("allowed"), "{text}: {message}");
        }
        assert_eq!(parse("-1", 1), Err(QuantityError::Negative { text: "-1".into() }));
    }

    #[test]
    fn a_quantity_beyond_what_fits_counts_as_the_largest_there_is() {
        for text in
            ["8Ei", "9e30", "1e99999", "1e99999999999999999999", "10000P", &"9".repeat(200), "9223372036854775808"]
        {
            assert_eq!(parse(text, 1), Ok(i64::MAX), "{text}");
        }
        assert_eq!(parse("10P", 1000), Ok(i64::MAX), "thousandths of a core");
        assert_eq!(parse("9P", 1000), Ok(9_000_000_000_000_000_000));
        assert_eq!(parse("9223372036854775807", 1), Ok(i64::MAX));
        assert!(matches!(parse("-10P", 1000), Err(QuantityError::Negative { .. })));
    }

    #[test]
    fn digits_beyond_those_that_count_only_round_up() {
        let zeros = "0".repeat(60);
        assert_eq!(parse(&format!("1.{zeros}"), 1), Ok(1));
        assert_eq!(parse(&format!("1.{zeros}1"), 1), Ok(2));
        assert_eq!(parse(&format!("{zeros}7"), 1), Ok(7));
        assert_eq!(parse(&format!("0.{zeros}1"), 1000), Ok(1));
        assert_eq!(parse("1e-1000000000", 1), Ok(1));
        assert_eq!(parse(&format!("1{zeros}e-60"), 1), Ok(1));
        assert_eq!(parse(&format!("1.{zeros}Ei"), 1), Ok(1 << 60));
        assert_eq!(parse(&format!("0.{}Ki", "1".repeat(40)), 1), Ok(114));
    }

    proptest! {
        #[test]
        fn formatting_and_parsing_agree(value in 0i64..) {
            prop_assert_eq!(parse(&format_milli(value), 1000).unwrap(), value);
            prop_assert_eq!(parse(&format_decimal(value), 1).unwrap(), value);
            prop_assert_eq!(parse(&format_binary(value), 1).unwrap(), value);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,24}") {
            let _ = parse(&text, 1000);
        }

        #[test]
        fn near_quantities_never_panic(text in "[-+]?[0-9.]{0,40}[eEnumkMGTPi]{0,2}[-0-9]{0,6}") {
            let _ = parse(&text, 1);
        }
    }
}
