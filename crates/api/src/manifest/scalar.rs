//! The value of a scalar as kubectl reads it: YAML 1.1's booleans, integers in four bases, everything else text.

use serde_json::{Number, Value};

/// The value of a plain scalar.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => return Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Value::String(text.into());
    }
    integer(text).or_else(|| float(text)).map_or_else(|| Value::String(text.into()), Value::Number)
}

fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.replace('_', "");
    let (digits, base) = match digits.get(..2) {
        Some("0x" | "0X") => (&digits[2..], 16),
        Some("0b" | "0B") => (&digits[2..], 2),
        Some("0o" | "0O") => (&digits[2..], 8),
        Some(octal) if octal.starts_with('0') => (&digits[1..], 8),
        _ => (digits.as_str(), 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative { i64::try_from(-i128::from(magnitude)).ok().map(Number::from) } else { Some(Number::from(magnitude)) }
}

fn float(text: &str) -> Option<Number> {
    let body = text.trim_start_matches(['+', '-']);
    let mut seen_digit = false;
    for (at, c) in body.char_indices() {
        match c {
            '0'..='9' => seen_digit = true,
            '.' => {}
            'e' | 'E' if seen_digit => {}
            '+' | '-' if at > 0 && body[..at].ends_with(['e', 'E']) => {}
            _ => return None,
        }
    }
    if !seen_digit {
        return None;
    }
    text.parse().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_are_what_kubectl_takes_them_for() {
        for (text, value) in [
            ("5", json!(5)),
            ("-5", json!(-5)),
            ("0x10", json!(16)),
            ("010", json!(8)),
            ("0", json!(0)),
            ("1.5", json!(1.5)),
            ("1e3", json!(1000.0)),
            ("yes", json!(true)),
            ("off", json!(false)),
            ("", json!(null)),
            ("~", json!(null)),
            ("18446744073709551615", json!(u64::MAX)),
            ("250m", json!("250m")),
            ("1Gi", json!("1Gi")),
            ("2026-01-02", json!("2026-01-02")),
            ("1.2.3", json!("1.2.3")),
            ("-", json!("-")),
            ("+", json!("+")),
            (".", json!(".")),
            ("08", json!(8.0)),
            ("0x", json!("0x")),
            ("us-east-1a", json!("us-east-1a")),
            ("1e", json!("1e")),
            ("-9223372036854775808", json!(i64::MIN)),
            (".5", json!(0.5)),
            ("é", json!("é")),
        ] {
            assert_eq!(plain(text), value, "{text}");
        }
    }
}
