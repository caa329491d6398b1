//! Kubernetes quantity text (`250m`, `1.5Gi`, `1e3`) to exact integers and back, without floating point.

use thiserror::Error;

/// Why a quantity was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not a number with a known suffix.
    #[error(
        "bad quantity {text:?}: {problem} (allowed: a decimal number, then nothing, n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)"
    )]
    Malformed {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Larger than a signed 64-bit count of the resource's unit.
    #[error(
        "bad quantity {text:?}: too large (allowed: up to 9223372036854775807 units, thousandths of a unit for cpu)"
    )]
    Overflow {
        /// What was written.
        text: String,
    },
    /// Below zero, where only zero and more make sense.
    #[error("bad quantity {text:?}: negative (allowed: zero and more)")]
    Negative {
        /// What was written.
        text: String,
    },
}

/// Parses a quantity into `scale`-ths of a unit (1 for whole units, 1000 for thousandths), rounding up as
/// kube-scheduler does. Negative quantities are an error: nothing here can be below zero.
///
/// # Errors
/// [`QuantityError`] for text that is no quantity, below zero, or beyond 64 bits.
pub fn parse(text: &str, scale: i64) -> Result<i64, QuantityError> {
    let malformed = |problem| QuantityError::Malformed { text: text.to_owned(), problem };
    let overflow = || QuantityError::Overflow { text: text.to_owned() };
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
        None => return Err(malformed("empty")),
    };
    let (mantissa, fraction_digits, suffix) = digits(rest).ok_or_else(overflow)?;
    if suffix.len() == rest.len() || (fraction_digits == 0 && suffix.len() + 1 == rest.len() && rest.starts_with('.')) {
        return Err(malformed("no digits"));
    }
    let (ten, two) = suffix_power(suffix).map_err(malformed)?;
    if negative && mantissa != 0 {
        return Err(QuantityError::Negative { text: text.to_owned() });
    }
    scaled(mantissa, ten - fraction_digits, two, scale).ok_or_else(overflow)
}

/// The digits before the suffix as one integer, how many of them follow the point, and the suffix.
fn digits(text: &str) -> Option<(i128, i32, &str)> {
    let (mut mantissa, mut fraction, mut point) = (0i128, 0i32, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
                fraction += i32::from(point);
            }
            b'.' if !point => point = true,
            _ => return Some((mantissa, fraction, &text[at..])),
        }
    }
    Some((mantissa, fraction, ""))
}

/// A suffix as powers of ten and of two.
fn suffix_power(suffix: &str) -> Result<(i32, u32), &'static str> {
    Ok(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => match suffix.strip_prefix(['e', 'E']).map(str::parse::<i32>) {
            Some(Ok(power)) if (-1000..=1000).contains(&power) => (power, 0),
            Some(Ok(_)) => return Err("exponent out of range"),
            _ => return Err("unknown suffix"),
        },
    })
}

/// `mantissa * 10^ten * 2^two * scale`, rounded up; `None` when it does not fit.
fn scaled(mantissa: i128, ten: i32, two: u32, scale: i64) -> Option<i64> {
    if mantissa == 0 {
        return Some(0);
    }
    let value = mantissa.checked_mul(i128::from(scale))?.checked_mul(1i128 << two)?;
    let value = if ten >= 0 {
        value.checked_mul(10i128.checked_pow(ten.unsigned_abs())?)?
    } else {
        // A divisor beyond 10^38 leaves something above zero and below one: one, rounded up.
        match 10i128.checked_pow(ten.unsigned_abs()) {
            Some(divisor) => value / divisor + i128::from(value % divisor != 0),
            None => 1,
        }
    };
    i64::try_from(value).ok()
}

/// Canonical text of `value` thousandths in decimal form: `250m`, `2`, `10k`.
#[must_use]
pub fn format_milli(value: i64) -> String {
    if value % 1000 == 0 { format_decimal(value / 1000) } else { format!("{value}m") }
}

/// Canonical text in decimal form: `40`, `10k`, `3M`.
#[must_use]
pub fn format_decimal(value: i64) -> String {
    format_with(value, 1000, ["", "k", "M", "G", "T", "P", "E"])
}

/// Canonical text in binary form: `100`, `256Mi`, `3Gi`.
#[must_use]
pub fn format_binary(value: i64) -> String {
    format_with(value, 1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

fn format_with(value: i64, base: i64, suffixes: [&str; 7]) -> String {
    let (mut left, mut power) = (value, 0);
    while left != 0 && left % base == 0 && power + 1 < suffixes.len() {
        left /= base;
        power += 1;
    }
    format!("{left}{}", suffixes[power])
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
        for text in ["", "m", ".", "1x", "1 Gi", "1gi", "1.2.3", "one", "1e", "1e99999", "0x10", "١"] {
            let message = parse(text, 1).unwrap_err().to_string();
            assert!(message.contains("allowed"), "{text}: {message}");
        }
        assert_eq!(parse("-1", 1), Err(QuantityError::Negative { text: "-1".into() }));
        assert_eq!(parse("8Ei", 1), Err(QuantityError::Overflow { text: "8Ei".into() }));
        assert_eq!(parse("9e30", 1), Err(QuantityError::Overflow { text: "9e30".into() }));
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
