//! The form of Kubernetes quantities. Their arithmetic is the core's.

use std::sync::LazyLock;

use regex_lite::Regex;

use crate::crds::patterns;

static QUANTITY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(patterns::QUANTITY).ok());

/// True if the text is a quantity: `500m`, `1.5Gi`, `1e3`.
pub fn is_quantity(text: &str) -> bool {
    QUANTITY.as_ref().is_some_and(|form| form.is_match(text))
}

/// The quantity's value in billionths, rounded up; `None` when it is none, or above 10^29.
pub fn billionths(text: &str) -> Option<i128> {
    if !is_quantity(text) {
        return None;
    }
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = body.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(body.len());
    let (number, suffix) = body.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let mantissa: i128 = digits
        .trim_start_matches('0')
        .parse()
        .or_else(|_| if digits.is_empty() { Err(()) } else { zero(&digits) })
        .ok()?;
    let (ten, two) = suffix_power(suffix).or_else(|| Some((suffix.get(1..)?.parse().ok()?, 0)))?;
    let ten = 9 - i64::try_from(fraction.len()).ok()? + ten;
    let value = mantissa.checked_mul(1 << two)?;
    let shift = 10i128.checked_pow(u32::try_from(ten.unsigned_abs()).ok()?);
    let value = match (shift, ten >= 0) {
        (Some(shift), true) => value.checked_mul(shift)?,
        (Some(shift), false) => value / shift + i128::from(value % shift != 0),
        (None, true) => return (value == 0).then_some(0),
        (None, false) => i128::from(value != 0),
    };
    Some(if negative { -value } else { value })
}

fn zero(digits: &str) -> Result<i128, ()> {
    if digits.bytes().all(|digit| digit == b'0') { Ok(0) } else { Err(()) }
}

/// Powers of ten and of two that a suffix stands for; none for an exponent, which has its number with it.
pub fn suffix_power(suffix: &str) -> Option<(i64, u32)> {
    Some(match suffix {
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
        _ => return None,
    })
}

/// A whole number with the largest suffix that leaves it whole, in decimal form: `40`, `10k`, `3M`.
pub fn with_decimal_suffix(number: i128) -> String {
    let (number, power) = without_factors(number, 1000);
    format!("{number}{}", ["", "k", "M", "G", "T", "P", "E"][power])
}

/// The same in binary form: `100`, `256Mi`, `3Gi`.
pub fn with_binary_suffix(number: i128) -> String {
    let (number, power) = without_factors(number, 1024);
    format!("{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power])
}

/// A number without its factors of `base`, of which six are taken at most, and how many they were.
pub fn without_factors(mut number: i128, base: i128) -> (i128, usize) {
    let mut power = 0;
    while number != 0 && number % base == 0 && power < 6 {
        (number, power) = (number / base, power + 1);
    }
    (number, power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_compare_across_suffixes() {
        for (text, value) in [
            ("1", 1_000_000_000),
            ("500m", 500_000_000),
            ("0.5", 500_000_000),
            ("1.5Gi", 1_610_612_736_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("1E", 1_000_000_000_000_000_000_000_000_000),
            ("-2k", -2_000_000_000_000),
            ("0.0000000001", 1),
            ("0", 0),
            ("000", 0),
            ("1n", 1),
        ] {
            assert_eq!(billionths(text), Some(value), "{text}");
        }
        assert_eq!(billionths("1e99"), None);
        assert_eq!(billionths("1 Gi"), None);
        assert_eq!(billionths("99999999999999999999999999999999999999999"), None);
    }

    #[test]
    fn quantities_have_the_suffixes_of_kubernetes() {
        for text in ["1", "0.5", ".5", "1.", "500m", "1.5Gi", "10G", "1e3", "1E-2", "-1", "+2k", "7u", "7n"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "Gi", "1GB", "1 Gi", "1K", "ten", "1.2.3", "1e", "0x10"] {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
