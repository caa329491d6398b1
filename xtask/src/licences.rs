//! The licences of all dependencies against the list that we accept.

use std::process::Command;

use crate::steps::root;

/// Licences that may stand in a product under Apache-2.0 without further conditions.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Fails naming each package whose licence expression cannot be satisfied from the list.
pub fn check() -> Result<(), String> {
    println!("== licences");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--workspace",
            "--edges",
            "normal,build,dev",
            "--prefix",
            "none",
            "--format",
            "{p}\t{l}",
            "--locked",
        ])
        .current_dir(root())
        .output()
        .map_err(|why| format!("cargo tree cannot be started: {why}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut refused: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.trim_end_matches(" (*)").split_once('\t'))
        .filter(|(_, licence)| !satisfied(licence))
        .map(|(package, licence)| format!("{package}: {licence:?}"))
        .collect();
    refused.sort();
    refused.dedup();
    if refused.is_empty() { Ok(()) } else { Err(format!("not accepted: {}", refused.join("; "))) }
}

/// Whether an SPDX expression can be satisfied: any side of an OR, every side of an AND.
fn satisfied(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let trimmed = expression.trim();
    if let Some(parts) = split(trimmed, " OR ") {
        return parts.iter().any(|part| satisfied(part));
    }
    if let Some(parts) = split(trimmed, " AND ") {
        return parts.iter().all(|part| satisfied(part));
    }
    match trimmed.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => satisfied(inner),
        None => ACCEPTED.contains(&trimmed),
    }
}

/// The parts between an operator that stands outside parentheses, if there is one.
fn split<'a>(expression: &'a str, operator: &str) -> Option<Vec<&'a str>> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(operator) => {
                parts.push(&expression[start..at]);
                start = at + operator.len();
            }
            _ => {}
        }
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(&expression[start..]);
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::satisfied;

    #[test]
    fn either_side_of_or_and_both_sides_of_and_decide() {
        assert!(satisfied("MIT OR GPL-3.0"));
        assert!(satisfied("MIT/Apache-2.0"));
        assert!(satisfied("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!satisfied("MIT AND GPL-3.0"));
        assert!(!satisfied("GPL-3.0"));
        assert!(!satisfied(""));
    }
}
