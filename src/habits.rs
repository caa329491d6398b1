//! Completions, man pages and the version.

use std::path::Path;

use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use dovetail_input::{Failure, Mistake, describe};
use serde::Serialize;

use crate::cli::{self, CompletedShell, CompletionsArgs, ManArgs, VersionArgs};
use crate::near::did_you_mean;
use crate::output::print;

const NAME: &str = "dovetail";

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let shell = match args.shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    generate(shell, &mut cli::command(), NAME, &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints a man page, or writes all of them.
///
/// # Errors
/// No such command, or a file cannot be written.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut whole = cli::command();
    whole.build();
    if let Some(folder) = &args.out {
        write_page(Path::new(folder), &format!("{NAME}.1"), &page(whole.clone())?)?;
        for one in whole.get_subcommands().filter(|one| one.get_name() != "help") {
            write_page(Path::new(folder), &format!("{NAME}-{}.1", one.get_name()), &page_of(one)?)?;
        }
        return Ok(());
    }
    let Some(name) = &args.command else { return print(&String::from_utf8_lossy(&page(whole)?)) };
    let Some(one) = whole.find_subcommand(name) else {
        let names: Vec<&str> = whole.get_subcommands().map(Command::get_name).collect();
        let what = format!("there is no such command{}", did_you_mean(name, names.iter().copied()));
        return Err(Mistake::of_file(name, what).allowing(names.join(", ")).into());
    };
    print(&String::from_utf8_lossy(&page_of(one)?))
}

/// The page of a command, named as its file.
fn page_of(one: &Command) -> Result<Vec<u8>, Failure> {
    let name: &'static str = Box::leak(format!("{NAME}-{}", one.get_name()).into_boxed_str());
    page(one.clone().name(name))
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    Man::new(command).render(&mut text).map_err(|why| Failure::System(why.to_string()))?;
    Ok(text)
}

fn write_page(folder: &Path, name: &str, text: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    let failed = |why: std::io::Error| Failure::System(format!("{}: {}", path.display(), describe(&why)));
    std::fs::create_dir_all(folder).map_err(failed)?;
    std::fs::write(&path, text).map_err(failed)
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    commit: &'static str,
}

/// Prints the version and the commit that the program was made from.
///
/// # Errors
/// Standard output cannot be written.
pub fn version(args: &VersionArgs) -> Result<(), Failure> {
    let found = Version { version: env!("CARGO_PKG_VERSION"), commit: dovetail_telemetry::COMMIT };
    let text = || format!("{NAME} {} (commit {})\n", found.version, found.commit);
    print(&args.output.render(&found, text)?)
}
