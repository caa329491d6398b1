//! Manifest files as the user named them.

use std::collections::BTreeMap;

use dovetail_api::manifest::{self, Manifest, ReadOptions};

use crate::input::{Mistake, read_text};

/// Minor version of the Kubernetes that the sandbox is and `plan` imagines.
pub const KUBERNETES_MINOR: u32 = 33;

/// Reads manifest files; every mistake of every file comes back together.
pub fn read_manifests(
    files: &[String],
    env: &BTreeMap<String, String>,
    cluster_name: &str,
) -> Result<Vec<Manifest>, Vec<Mistake>> {
    let mut texts = Vec::new();
    let mut mistakes = Vec::new();
    for file in files {
        match read_file(file) {
            Ok(text) => texts.push((file.clone(), text)),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let options = ReadOptions {
        env: env.clone(),
        cluster_name: cluster_name.to_owned(),
        kubernetes_minor: Some(KUBERNETES_MINOR),
    };
    match manifest::read(&texts, &options) {
        Ok(manifests) if mistakes.is_empty() => Ok(manifests),
        Ok(_) => Err(mistakes),
        Err(errors) => {
            mistakes.extend(errors.into_iter().map(Mistake::from));
            Err(mistakes)
        }
    }
}

fn read_file(file: &str) -> Result<String, Mistake> {
    if file != "-" {
        return read_text(file);
    }
    std::io::read_to_string(std::io::stdin()).map_err(|why| Mistake::of_file("-", why.to_string()))
}
