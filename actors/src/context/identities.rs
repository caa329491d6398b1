//! The seam to certificates: keys come from the machine's randomness, and what is served lies outside of the actors' thread.

use dovetail_core::webhook::kept::ServingIdentity;
use jiff::Timestamp;

/// Makes certificates, judges them, and serves with them.
pub trait Identities: Send + Sync {
    /// A new key, and its certificate for these names by an authority of its own.
    ///
    /// # Errors
    /// The reason why there is none.
    fn make(&self, names: &[String], begins: Timestamp, until: Timestamp) -> Result<ServingIdentity, String>;

    /// True if a client that trusts its authority accepts it at that time for each of these names.
    fn is_sound(&self, identity: &ServingIdentity, names: &[String], now: Timestamp) -> bool;

    /// Serves this certificate from the next connection on.
    ///
    /// # Errors
    /// The reason why it cannot be served.
    fn serve(&self, identity: &ServingIdentity) -> Result<(), String>;
}
