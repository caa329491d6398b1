//! Claims, volumes and attachments.

use super::*;

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name,
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": mode})
}

fn stateful_with_volumes(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": template("db", "100m"),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}}}}]},
    })
}

#[test]
fn stateful_set_volumes_follow_its_pods_and_attach_before_start() {
    for provisioner in ["ebs.csi.aws.com", "kubernetes.io/aws-ebs"] {
        on(&[nodes("m5.large", 3)], async |rig| {
            rig.create(class("gp2", provisioner, "WaitForFirstConsumer"));
            rig.create(stateful_with_volumes(3));
            rig.after(60.0).await;
            assert_eq!(rig.ready(), 3);
            for n in 0..3 {
                let claim = rig.get(&api::PERSISTENT_VOLUME_CLAIMS, &format!("data-db-{n}"));
                assert_eq!(claim["status"]["phase"], "Bound");
                let volume = rig.get(&api::PERSISTENT_VOLUMES, claim["spec"]["volumeName"].as_str().unwrap());
                let node = rig.get(&api::NODES, &rig.place(&format!("db-{n}")));
                let zone = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
                    [0];
                assert_eq!(*zone, node["metadata"]["labels"]["topology.kubernetes.io/zone"]);
            }
            let attached = rig.api.list(&api::VOLUME_ATTACHMENTS);
            assert_eq!(attached.iter().filter(|a| a["status"]["attached"] == true).count(), 3);
        });
    }
}

#[test]
fn a_pod_comes_back_to_its_volume_s_zone_once_it_is_detached() {
    on(&[nodes("m5.large", 3)], async |rig| {
        rig.create(class("gp3", "ebs.csi.aws.com", "WaitForFirstConsumer"));
        rig.create(stateful_with_volumes(1));
        rig.after(20.0).await;
        let node = rig.place("db-0");
        assert_eq!(rig.ready(), 1);
        rig.api.patch(&api::NODES, "", &node, &json!({"spec": {"unschedulable": true}})).unwrap();
        rig.delete(&api::PODS, "db-0");
        rig.after(20.0).await;
        assert!(rig.why("db-0").contains("1 node(s) were unschedulable"), "{}", rig.why("db-0"));
        assert!(rig.why("db-0").contains("2 node(s) had volume node affinity conflict"), "{}", rig.why("db-0"));
        assert_eq!(rig.api.list(&api::VOLUME_ATTACHMENTS).len(), 0);
        rig.api.patch(&api::NODES, "", &node, &json!({"spec": {"unschedulable": null}})).unwrap();
        rig.after(20.0).await;
        assert_eq!((rig.place("db-0"), rig.ready()), (node, 1));
    });
}

#[test]
fn immediate_pvc_is_bound_without_a_pod_and_decides_its_zone() {
    on(&[nodes("m5.large", 3)], async |rig| {
        rig.create(class("now", "ebs.csi.aws.com", "Immediate"));
        rig.create(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        rig.pod("p", json!({}), json!({"containers": [container("100m")], "volumes": volumes}));
        rig.after(0.5).await;
        assert_eq!(rig.why("p"), "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
        rig.after(20.0).await;
        assert_eq!(rig.ready(), 1);
    });
}

#[test]
fn pod_with_a_missing_pvc_says_so_and_runs_once_it_exists() {
    on(&[nodes("m5.large", 1)], async |rig| {
        rig.create(class("gp3", "ebs.csi.aws.com", "WaitForFirstConsumer"));
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        rig.pod("p", json!({}), json!({"containers": [container("100m")], "volumes": volumes}));
        rig.after(1.0).await;
        assert_eq!(rig.why("p"), "0/1 nodes are available: persistentvolumeclaim \"data\" not found.");
        rig.create(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
        rig.after(20.0).await;
        assert_eq!(rig.ready(), 1);
    });
}
