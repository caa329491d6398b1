//! As much of TOML as Bottlerocket's settings use: tables, dotted and quoted keys, strings, numbers, lists of strings.

use std::collections::BTreeMap;

/// Values by path; a scalar is a list of one.
pub(crate) type Settings = BTreeMap<Vec<String>, Vec<String>>;

/// Reads settings; lines that are not understood are skipped, as a reader of somebody else's user data must.
pub(crate) fn read(text: &str) -> Settings {
    let mut settings = Settings::new();
    let mut table: Vec<String> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = without_comment(line).trim().to_owned();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = path(header.trim_start_matches('[').trim_end_matches(']'));
        } else if let Some((key, value)) = split_at_equals(&line) {
            let mut value = value.trim().to_owned();
            while value.starts_with('[') && !value.ends_with(']') {
                let Some(more) = lines.next() else { break };
                value.push_str(without_comment(more).trim());
            }
            let at = table.iter().cloned().chain(path(key)).collect();
            settings.insert(at, values(&value));
        }
    }
    settings
}

/// Calls `at` for each character outside quotes, with its position, until it answers.
fn outside_quotes<T>(text: &str, mut at: impl FnMut(usize, char) -> Option<T>) -> Option<T> {
    let mut quote = None;
    for (position, c) in text.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None => {
                if let Some(found) = at(position, c) {
                    return Some(found);
                }
            }
        }
    }
    None
}

fn without_comment(line: &str) -> &str {
    outside_quotes(line, |at, c| (c == '#').then_some(&line[..at])).unwrap_or(line)
}

fn split_at_equals(line: &str) -> Option<(&str, &str)> {
    outside_quotes(line, |at, c| (c == '=').then(|| (&line[..at], &line[at + 1..])))
}

fn split(text: &str, by: char) -> Vec<&str> {
    let mut cuts = vec![0];
    outside_quotes::<()>(text, |at, c| {
        if c == by {
            cuts.extend([at, at + 1]);
        }
        None
    });
    cuts.push(text.len());
    cuts.chunks(2).map(|c| &text[c[0]..c[1]]).collect()
}

fn path(text: &str) -> Vec<String> {
    split(text, '.').into_iter().map(|part| unquoted(part.trim())).collect()
}

fn values(text: &str) -> Vec<String> {
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(list) => split(list, ',').into_iter().map(|v| unquoted(v.trim())).filter(|v| !v.is_empty()).collect(),
        None => vec![unquoted(text)],
    }
}

fn unquoted(text: &str) -> String {
    let inner = |q: char| text.strip_prefix(q).and_then(|rest| rest.strip_suffix(q));
    match (inner('"'), inner('\'')) {
        (Some(basic), _) => basic.replace("\\\"", "\"").replace("\\\\", "\\"),
        (_, Some(literal)) => literal.to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_quoted_keys_and_lists_over_several_lines_are_read() {
        let text = "[settings.kubernetes]\ncluster-name = 'demo' # ours\nmax-pods = 29\n\
            [settings.kubernetes.node-taints]\n\"karpenter.sh/unregistered\" = [\n  \":NoExecute\",\n]\n";
        let settings = read(text);
        let at = |path: &[&str]| settings.get(&path.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>()).cloned();
        assert_eq!(at(&["settings", "kubernetes", "cluster-name"]), Some(vec!["demo".to_owned()]));
        assert_eq!(at(&["settings", "kubernetes", "max-pods"]), Some(vec!["29".to_owned()]));
        let taint = at(&["settings", "kubernetes", "node-taints", "karpenter.sh/unregistered"]);
        assert_eq!(taint, Some(vec![":NoExecute".to_owned()]));
    }
}
