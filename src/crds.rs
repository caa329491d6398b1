//! The command `dovetail crds`.

use std::io::Write as _;

use dovetail_input::Failure;

/// Prints the CRDs as a stream of YAML documents.
pub fn run() -> Result<(), Failure> {
    let text = dovetail_api::crds::crds_yaml().map_err(|why| Failure::System(why.to_string()))?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|why| Failure::System(why.to_string()))
}
