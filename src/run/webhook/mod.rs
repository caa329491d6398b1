//! The conversion webhook's server: v1beta1 for API servers, on a thread of its own, so that it answers however busy the
//! actors are. Which certificate it serves is the actor `webhook`'s to say.

mod identities;

use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_actors::context::identities::Identities;
use dovetail_actors::webhook::place;
use dovetail_api::convert::webhook::reply;
use dovetail_core::webhook::definition::PATH;
use dovetail_input::Failure;
use dovetail_observability::reviews::{self, Reviews};

use super::process;
use identities::Certified;

/// The path that Karpenter's definitions name.
const KARPENTERS: &str = "/conversion/karpenter.sh";

/// Serves it where the settings say so; nothing where they do not. A port that is taken is refused.
pub fn serve(settings: &Settings, in_cluster: bool) -> Result<Option<Arc<dyn Identities>>, Failure> {
    if !settings.webhook.enabled {
        return Ok(None);
    }
    let failed = |why: String| Failure::System(format!("the conversion webhook cannot be served: {why}"));
    let name = "WEBHOOK_PORT (--webhook-port)";
    let socket =
        process::bind(settings.bind_address, in_cluster, settings.webhook.port, name).map_err(Failure::System)?;
    let address = socket.local_addr().map(|address| address.to_string()).unwrap_or_default();
    let identities = Certified::new(place(settings).names());
    let tls = identities.config().map_err(|why| failed(why.to_string()))?;
    let mut paths = vec![PATH.to_owned(), KARPENTERS.to_owned()];
    paths.extend(path(&settings.webhook.url));
    reviews::start(socket, tls, Reviews { paths, answer: Arc::new(reply) }).map_err(|why| failed(why.to_string()))?;
    tracing::info!(logger = "run", webhook = address, "serving the conversion webhook");
    Ok(Some(Arc::new(identities)))
}

/// The path of a URL.
fn path(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    Some(rest.find('/').map_or("/", |at| &rest[at..]).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_url_is_answered_at_too() {
        let of = |url| path(url).unwrap_or_default();
        assert_eq!((of("https://a.example:1/x/y"), of("https://a.example")), ("/x/y".into(), "/".into()));
        assert_eq!(path(""), None);
    }
}
