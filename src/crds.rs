//! The command `dovetail crds`.

use dovetail_input::Failure;

use crate::output::print;

/// Prints the CRDs as a stream of YAML documents.
pub fn run() -> Result<(), Failure> {
    let text = dovetail_api::crds::crds_yaml().map_err(|why| Failure::System(why.to_string()))?;
    print(&text)
}
