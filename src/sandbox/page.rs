//! The first page: nodes, pods, price, leader, and the story. Everything that it needs is in it.

use std::rc::Rc;

use dovetail_sandbox::apiserver::{Page, Pages};

use super::state;
use crate::cli::SandboxArgs;
use crate::world::World;

const PAGE: &str = include_str!("page.html");

/// The pages by path.
pub fn pages(world: Rc<World>, args: &SandboxArgs) -> Pages {
    let args = args.clone();
    Rc::new(move |path: &str| -> Option<Page> {
        match path {
            "/" => Some(("text/html; charset=utf-8", PAGE.as_bytes().into())),
            "/sandbox/state" => Some(("application/json", state::of(&world, &args).to_string().into_bytes().into())),
            _ => None,
        }
    })
}
