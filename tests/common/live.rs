//! A live sandbox in a process of its own, and kubectl.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::{arg, python, root, scratch, stderr, stdout};

/// kubectl as the project's go.mod pins it, built when it is not there.
pub fn kubectl_program() -> &'static str {
    static BUILT: OnceLock<String> = OnceLock::new();
    BUILT.get_or_init(|| built("kubectl"))
}

/// A program as the project's go.mod files pin it, built when it is not there.
pub fn built(program: &str) -> String {
    let built = python(&["tests/real/build.py", program]);
    assert!(built.status.success(), "{}", stderr(&built));
    stdout(&built).trim().to_owned()
}

/// Output of a sandbox so far.
#[derive(Default)]
struct Said {
    lines: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

/// A sandbox that runs until it is dropped.
pub struct Live {
    child: Child,
    said: Arc<Said>,
    kubeconfig: PathBuf,
    program: Option<String>,
}

/// Nothing that a sandbox is asked for takes longer.
pub const LONGEST_WAIT: Duration = Duration::from_secs(180);

impl Live {
    /// Starts one; `name` names its files.
    #[track_caller]
    pub fn start(name: &str, args: &[&str]) -> Self {
        let kubeconfig = scratch(&format!("{name}.kubeconfig"));
        let _ = std::fs::remove_file(&kubeconfig);
        let mut child = Command::new(env!("CARGO_BIN_EXE_dovetail"))
            .args(["sandbox", "--kubeconfig", arg(&kubeconfig)])
            .args(args)
            .current_dir(root())
            .env_remove("CLUSTER_NAME")
            .env_remove("AWS_REGION")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let said = Arc::new(Said::default());
        let (output, to) = (child.stdout.take().expect("piped"), said.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                to.lines.lock().unwrap_or_else(PoisonError::into_inner).0.push(line);
                to.more.notify_all();
            }
            to.lines.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
            to.more.notify_all();
        });
        let live = Self { child, said, kubeconfig, program: None };
        live.wait_until_served();
        live
    }

    /// Waits for the kubeconfig, which is written when the API is served.
    fn wait_until_served(&self) {
        let mut lines = self.said.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.kubeconfig.exists() {
            assert!(!lines.1, "the sandbox ended before it served: {:#?}", lines.0);
            lines = self.said.more.wait_timeout(lines, Duration::from_millis(100)).expect("not poisoned").0;
        }
    }

    /// Uses another kubectl.
    pub fn with_kubectl(mut self, program: String) -> Self {
        self.program = Some(program);
        self
    }

    /// Path of its kubeconfig.
    pub fn kubeconfig(&self) -> &str {
        arg(&self.kubeconfig)
    }

    /// The first line that says this; fails when the sandbox ends, or has not said it in a long time.
    pub fn wait_for(&self, what: &str) -> String {
        self.wait_until(what, |lines| lines.iter().find(|line| line.contains(what)).cloned())
    }

    /// Returns what `found` finds in the lines as soon as they have it; fails when the sandbox ends, or is silent for a long
    /// time.
    pub fn wait_until<T>(&self, what: &str, found: impl Fn(&[String]) -> Option<T>) -> T {
        let mut lines = self.said.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(found) = found(&lines.0) {
                return found;
            }
            assert!(!lines.1, "the sandbox ended without saying {what:?}: {:#?}", lines.0);
            let (again, late) = self.said.more.wait_timeout(lines, LONGEST_WAIT).unwrap();
            assert!(!late.timed_out(), "the sandbox never says {what:?}: {:#?}", again.0);
            lines = again;
        }
    }

    /// Everything that it has said.
    pub fn lines(&self) -> Vec<String> {
        self.said.lines.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// A kubectl command on it, ready to run.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.program.as_deref().unwrap_or_else(|| kubectl_program()));
        command
            .args(["--kubeconfig", self.kubeconfig(), "--cache-dir", arg(&self.kubeconfig.with_extension("cache"))])
            .args(args)
            .current_dir(root())
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
        command
    }

    /// Runs a kubectl command.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("kubectl starts")
    }

    /// The output of a kubectl command that succeeds.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(output.status.success(), "kubectl {args:?}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    /// Standard error of a kubectl command, which has to fail.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(!output.status.success(), "kubectl {args:?} succeeds: {}", stdout(&output));
        stderr(&output)
    }

    /// Ends it as Ctrl-C does, and answers with its exit status.
    pub fn interrupt(mut self) -> Option<i32> {
        let signalled =
            Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().expect("kill starts");
        assert!(signalled.success());
        self.child.wait().expect("it ends").code()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
