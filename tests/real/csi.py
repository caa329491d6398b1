"""A stand-in for the driver ebs.csi.aws.com: provisioner, attacher, and the CSINodes that its node plugin would bring about.

    csi.py SERVER PKI

Volumes are names; what is real is who waits for whom: kube-scheduler picks the node, this provisions in its zone, the
controller manager binds and attaches.
"""

import sys
import time

from kube import Kube, Refused

DRIVER = "ebs.csi.aws.com"
LOOK = 1.0
STORAGE = "/apis/storage.k8s.io/v1"
#: Volumes a node, as the driver reports them for most types.
COUNT = 25


def drivers(kube, nodes):
    """Every Node has the driver."""
    kube.create(f"{STORAGE}/csidrivers", {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {"attachRequired": True},
    })
    known = {item["metadata"]["name"] for item in kube.list(f"{STORAGE}/csinodes")}
    for name in nodes.keys() - known:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": nodes[name]["metadata"]["uid"]}
        plugin = {"name": DRIVER, "nodeID": name, "topologyKeys": [f"topology.{DRIVER}/zone"], "allocatable": {"count": COUNT}}
        kube.create(f"{STORAGE}/csinodes", {
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": name, "ownerReferences": [owner]}, "spec": {"drivers": [plugin]},
        })
        zone = nodes[name]["metadata"]["labels"].get("topology.kubernetes.io/zone")
        kube.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {f"topology.{DRIVER}/zone": zone}}})


def provision(kube, nodes):
    """A volume for every claim whose pod has a node."""
    for claim in kube.list("/api/v1/persistentvolumeclaims"):
        meta, spec = claim["metadata"], claim["spec"]
        notes = meta.get("annotations", {})
        ours = DRIVER in (notes.get("volume.kubernetes.io/storage-provisioner"), notes.get("volume.kubernetes.io/migrated-to"))
        node = nodes.get(notes.get("volume.kubernetes.io/selected-node"))
        if not ours or spec.get("volumeName") or node is None:
            continue
        zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        name = f"pvc-{meta['uid']}"
        term = {"matchExpressions": [{"key": f"topology.{DRIVER}/zone", "operator": "In", "values": [zone]}]}
        made = kube.create("/api/v1/persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
            "spec": {
                "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
                "storageClassName": spec.get("storageClassName"), "persistentVolumeReclaimPolicy": "Delete",
                "csi": {"driver": DRIVER, "volumeHandle": f"vol-{meta['uid'][:8]}"},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"],
                             "name": meta["name"], "uid": meta["uid"]},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
        })
        if made:
            print(f"{name} in {zone} for {meta['name']}", flush=True)


def attach(kube):
    """What the controller manager wants attached is attached."""
    for attachment in kube.list(f"{STORAGE}/volumeattachments"):
        name = attachment["metadata"]["name"]
        if attachment["spec"]["attacher"] == DRIVER and not attachment.get("status", {}).get("attached"):
            kube.patch(f"{STORAGE}/volumeattachments/{name}/status", {"status": {"attached": True}})


def release(kube):
    """Volumes of claims that are gone go too."""
    for volume in kube.list("/api/v1/persistentvolumes"):
        ours = volume["spec"].get("csi", {}).get("driver") == DRIVER
        if ours and volume.get("status", {}).get("phase") == "Released":
            kube.call("DELETE", f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


def main(server, pki):
    kube = Kube(server, pki, "admin")
    while True:
        try:
            nodes = {node["metadata"]["name"]: node for node in kube.list("/api/v1/nodes")}
            drivers(kube, nodes)
            provision(kube, nodes)
            attach(kube)
            release(kube)
        except (OSError, Refused) as error:
            print(f"not now: {error}", flush=True)
        time.sleep(LOOK)


if __name__ == "__main__":
    main(*sys.argv[1:])
