//! The CRDs under `deploy/crds` are what the code says; `UPDATE=1 cargo test --release -p dovetail-api --test
//! api crds` writes them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::{fs, path::PathBuf};

use dovetail_api::crds;
use dovetail_api::names::provider::Provider;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds")
}

#[test]
fn the_files_under_deploy_are_up_to_date() {
    let files = crds::crd_files().unwrap();
    let update = std::env::var_os("UPDATE").is_some();
    for (name, text) in &files {
        let path = folder().join(name);
        if update {
            fs::write(&path, text).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(&there == text, "{name} is stale: run with UPDATE=1");
    }
    let mut there: Vec<String> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.retain(|name| name.ends_with(".yaml"));
    assert_eq!(there.len(), files.len(), "a CRD that nobody makes: {there:?}");
}

/// A cluster on EC2 needs no KWOKNodeClass: its CRD is no file of the charts.
#[test]
fn the_crd_of_kwoks_class_is_a_file_of_its_own() {
    let (name, text) = crds::kwok_crd_file().unwrap();
    let path = folder().with_file_name("kwok").join(&name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == text, "{name} is stale: run with UPDATE=1");
    let own = crds::provider_crds_yaml(Provider::Kwok).unwrap();
    assert!(own.ends_with(&text) && own.matches("kind: CustomResourceDefinition").count() == 4);
    assert!(!crds::crds_yaml().unwrap().contains("kwok"));
}

/// A cluster with Cluster Autoscaler has that CRD: it is no file of the charts, and is applied where it is missing.
#[test]
fn the_crd_of_capacity_buffers_is_a_file_of_its_own() {
    let (name, text) = crds::buffer_crd_file().unwrap();
    let path = folder().with_file_name("buffers").join(&name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == text, "{name} is stale: run with UPDATE=1");
    assert!(!crds::crds_yaml().unwrap().contains("capacitybuffers"));
}

/// As that of capacity buffers.
#[test]
fn the_crd_of_capacity_quotas_is_a_file_of_its_own() {
    let (name, text) = crds::quota_crd_file().unwrap();
    let path = folder().with_file_name("quotas").join(&name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == text, "{name} is stale: run with UPDATE=1");
    assert!(!crds::crds_yaml().unwrap().contains("capacityquotas"));
}

/// As that of capacity buffers.
#[test]
fn the_crd_of_provisioning_requests_is_a_file_of_its_own() {
    let (name, text) = crds::request_crd_file().unwrap();
    let path = folder().with_file_name("requests").join(&name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == text, "{name} is stale: run with UPDATE=1");
    assert!(!crds::crds_yaml().unwrap().contains("provisioningrequests"));
}

#[test]
fn the_yaml_says_what_the_objects_say() {
    let all = crds::crds().into_iter().chain(crds::alpha_crds()).chain([crds::overlay_crd()]);
    for ((name, text), crd) in crds::crd_files().unwrap().iter().zip(all) {
        let read: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        let mut made = serde_json::to_value(&crd).unwrap();
        made.as_object_mut().unwrap().remove("status");
        assert!(read == made, "{name}");
    }
}

#[test]
fn each_crd_stores_one_version_and_every_version_has_a_schema() {
    for crd in crds::crds().into_iter().chain(crds::alpha_crds()) {
        let stored = crd.spec.versions.iter().filter(|version| version.storage).count();
        assert_eq!(stored, 1, "{:?}", crd.metadata.name);
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            assert!(
                schema.is_some_and(|schema| schema.properties.is_some()),
                "{:?} {}",
                crd.metadata.name,
                version.name
            );
        }
    }
}

/// The status passes through a conversion as it is.
#[test]
fn every_version_declares_the_same_fields_of_a_status() {
    for crd in crds::crds() {
        let crd = serde_json::to_value(&crd).unwrap();
        let fields = |version: &serde_json::Value| {
            let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
            status.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let versions: Vec<_> = crd["spec"]["versions"].as_array().unwrap().iter().map(fields).collect();
        assert!(versions.windows(2).all(|two| two[0] == two[1]), "{}: {versions:?}", crd["metadata"]["name"]);
    }
}

#[test]
fn v1_alone_is_served_and_what_was_stored_before_stays_named() {
    let all = crds::crds();
    let kinds: Vec<_> = all.iter().map(|crd| crd.spec.names.kind.as_str()).collect();
    assert_eq!(kinds, ["NodePool", "NodeClaim", "EC2NodeClass"]);
    for crd in &all {
        let versions: Vec<_> =
            crd.spec.versions.iter().map(|one| (one.name.as_str(), one.served, one.storage)).collect();
        assert_eq!(versions, [("v1", true, true), ("v1beta1", false, false)], "{:?}", crd.metadata.name);
    }
}

#[test]
fn the_alpha_kinds_are_stored_as_they_are_written() {
    let all = crds::alpha_crds();
    let kinds: Vec<_> = all.iter().map(|crd| (crd.spec.names.kind.as_str(), crd.spec.names.plural.as_str())).collect();
    let expected = [("Provisioner", "provisioners"), ("Machine", "machines"), ("AWSNodeTemplate", "awsnodetemplates")];
    assert_eq!(kinds, expected);
    for crd in &all {
        let version = &crd.spec.versions[0];
        assert!(version.served && version.storage && crd.spec.versions.len() == 1, "{:?}", crd.metadata.name);
        assert!(version.subresources.as_ref().is_some_and(|sub| sub.status.is_some()), "{:?}", crd.metadata.name);
    }
}

#[test]
fn names_columns_and_subresources_match_the_specification() {
    let all = crds::crds();
    let pool = &all[0];
    assert_eq!(pool.spec.names.plural, "nodepools");
    assert_eq!(pool.spec.names.categories.as_deref(), Some(&["karpenter".to_string()][..]));
    assert_eq!(pool.spec.scope, "Cluster");
    let scale = pool.spec.versions[0].subresources.as_ref().and_then(|sub| sub.scale.as_ref()).unwrap();
    assert_eq!(
        (scale.spec_replicas_path.as_str(), scale.status_replicas_path.as_str()),
        (".spec.replicas", ".status.nodes")
    );
    let columns: Vec<_> =
        pool.spec.versions[0].additional_printer_columns.iter().flatten().map(|column| column.name.as_str()).collect();
    assert_eq!(columns, ["NodeClass", "Nodes", "Ready", "Age", "Weight", "CPU", "Memory"]);
    assert_eq!(all[2].spec.names.short_names.as_deref(), Some(&["ec2nc".to_string(), "ec2ncs".to_string()][..]));
}
