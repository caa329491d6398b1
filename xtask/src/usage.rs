//! CPU time of a program that was started, with that of all that it started and waited for.

use std::process::{Child, ExitStatus};
use std::thread;
use std::time::Duration;

/// Ticks a second in /proc, which Linux has fixed for what it shows to programs.
const TICKS_PER_SECOND: u32 = 100;
/// Pause between two looks at a program that runs.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Waits for the end of a program. Its CPU time is `None` where there is no /proc to read it from.
///
/// # Errors
/// The system does not let it be waited for.
#[allow(clippy::disallowed_methods)] // xtask runs on real time
pub fn wait(child: &mut Child) -> std::io::Result<(ExitStatus, Option<Duration>)> {
    let path = format!("/proc/{}/stat", child.id());
    // A program that has ended stays in /proc until it is waited for, with the times of its children.
    let used = loop {
        let Some((state, used)) = std::fs::read_to_string(&path).ok().and_then(|text| parse(&text)) else { break None };
        if state == 'Z' {
            break Some(used);
        }
        thread::sleep(POLL_INTERVAL);
    };
    Ok((child.wait()?, used))
}

/// The state and the CPU time of a line of /proc/PID/stat.
fn parse(text: &str) -> Option<(char, Duration)> {
    // The name stands in brackets and may hold anything.
    let (_, after) = text.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // utime, stime, cutime and cstime are the fields 14 to 17, the state is the third.
    let ticks = fields.skip(10).take(4).map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some((state, Duration::from_secs_f64(ticks as f64 / f64::from(TICKS_PER_SECOND))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_that_of_the_program_and_its_children() {
        let line = "42 (a ) b) Z 1 42 42 0 -1 4194304 10 20 0 0 100 50 25 25 20 0 1 0 5 0 0";
        assert_eq!(parse(line), Some(('Z', Duration::from_secs(2))));
        assert_eq!(parse("42 (cut off"), None);
    }

    #[test]
    fn a_program_that_computes_has_used_cpu_time() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; exit 3"])
            .spawn()
            .unwrap();
        let (status, used) = wait(&mut child).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(used.is_none_or(|used| used > Duration::ZERO), "{used:?}");
    }
}
