//! Arguments of what a command line is expected to have: completions, man pages, the version.

use clap::{Args, ValueEnum};

use crate::live::OutputArgs;

/// `dovetail completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: CompletedShell,
}

/// Shells with completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletedShell {
    /// For a file in bash_completion.d
    Bash,
    /// For a file `_dovetail` in fpath
    Zsh,
    /// For a file in fish's folder of completions
    Fish,
}

/// `dovetail man`.
#[derive(Args)]
pub struct ManArgs {
    /// Command whose page is printed; the program's own unless given
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub command: Option<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<String>,
}

/// `dovetail version`.
#[derive(Args)]
pub struct VersionArgs {
    /// Form of the answer.
    #[command(flatten)]
    pub output: OutputArgs,
}
