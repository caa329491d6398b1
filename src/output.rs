//! Answers on standard output.

use std::io::{ErrorKind, Write as _};

use dovetail_input::Failure;

/// Writes an answer. A reader that has seen enough (`| head`) is no failure of ours; any other is one, so that no answer that is
/// cut short passes as whole.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => Err(Failure::System(why.to_string())),
        _ => Ok(()),
    }
}
