//! Globs, as EC2's filters have them.

/// True if `type/zone/capacityType` matches a glob; parts left out at the end match anything.
pub fn offering_matches(glob: &str, instance_type: &str, zone: &str, capacity_type: &str) -> bool {
    let mut parts = glob.split('/');
    [instance_type, zone, capacity_type].iter().all(|text| glob_matches(parts.next().unwrap_or("*"), text))
        && parts.next().is_none()
}

/// True if `text` matches a pattern in which `*` stands for any run of characters, also none, and `?` for one: the wildcards of
/// EC2's filters.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return pattern == text;
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                // The star takes one character more, and what follows it is tried again.
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_ec2_s_filters_do() {
        assert!(glob_matches("m5.*", "m5.large") && glob_matches("*", "") && glob_matches("*5?l*", "c5.large"));
        assert!(!glob_matches("m5.*", "m5a.large") && !glob_matches("m5", "m5.large") && !glob_matches("?", ""));
        assert!(glob_matches("*a*b", "xaxbab") && !glob_matches("*a*b", "xaxba"));
    }
}
