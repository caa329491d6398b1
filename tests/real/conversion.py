#!/usr/bin/env python3
"""The conversion webhook on the real control plane, and what becomes of it: nothing that is stored may be lost by it.

    conversion.py [--down 20]      seconds without any replica, with v1 clients at work; the issue speaks of ten minutes

An older Karpenter has stored a pool and a class as v1beta1, with fields that v1 does not have. Two replicas serve the webhook
behind one address. Then, one after another: both rotate at once (both lead: DISABLE_LEADER_ELECTION), an expired
certificate is put into the Secret, the API server is restarted, and all replicas are down. A client writes by v1 all the
time. Each time v1beta1 has to be served again by itself, no write of v1 may be refused for it, and in the end both versions
have to say what was written.
"""

import argparse
import base64
import datetime
import hashlib
import json
import socket
import ssl
import subprocess
import threading
import time

from adoption import CRDS, store_as
from proof import Proof, Refused, ask, end, play, pool_text

BETA = {"nodepool": "/apis/karpenter.sh/v1beta1/nodepools/default", "class": "/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses/default"}
STABLE = {"nodepool": "/apis/karpenter.sh/v1/nodepools/default", "class": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default"}
SECRET = "/api/v1/namespaces/kube-system/secrets/dovetail-webhook"
COUNT = "proof/count"
BETA_ONLY = (
    ("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n"), ("karpenter.k8s.aws/v1\n", "karpenter.k8s.aws/v1beta1\n"),
    ("        group: karpenter.k8s.aws\n        kind: EC2NodeClass\n", ""),
    # In v1 the one is the template's, and the other the class's.
    ("    consolidateAfter: 5s\n", "    consolidateAfter: 5s\n    expireAfter: 500h\n"),
    ("      requirements:\n", "      kubelet:\n        maxPods: 42\n      requirements:\n"),
)


class Way(threading.Thread):
    """One address in front of the replicas' webhooks, as a Service is: whoever takes the connection is asked."""

    def __init__(self, backends):
        super().__init__(daemon=True)
        self.backends, self.turn = backends, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            one, _ = self.listener.accept()
            threading.Thread(target=self.lead, args=(one,), daemon=True).start()

    def lead(self, one):
        self.turn += 1
        for at in range(len(self.backends)):
            try:
                other = socket.create_connection(("127.0.0.1", self.backends[(self.turn + at) % len(self.backends)]), timeout=2)
                other.settimeout(None)
            except OSError:
                continue
            threading.Thread(target=pump, args=(other, one), daemon=True).start()
            return pump(one, other)
        return one.close()


def pump(source, sink):
    """Bytes from the one to the other until either ends."""
    try:
        while more := source.recv(1 << 16):
            sink.sendall(more)
    except OSError:
        pass
    for one in (source, sink):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Client(threading.Thread):
    """Writes by v1 all the time, and remembers the last write that was acknowledged."""

    def __init__(self, proof):
        super().__init__(daemon=True)
        self.proof, self.count, self.refusals, self.away, self.ended = proof, 0, [], 0, False
        self.start()

    def run(self):
        while not self.ended:
            body = {"metadata": {"annotations": {COUNT: str(self.count + 1)}}, "spec": {"weight": 1 + self.count % 100}}
            try:
                if self.proof.kube.patch(STABLE["nodepool"], body):
                    self.count += 1
            except Refused as why:
                # An API server that starts, and a definition that is read in anew, ask clients to come again in a moment.
                if why.status in (429, 503):
                    self.away += 1
                else:
                    self.refusals.append(str(why)[:160])
            except OSError:
                self.away += 1
            time.sleep(0.2)


def served(port):
    """The fingerprint of what is served there; empty where nothing is."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as raw, context.wrap_socket(raw) as tls:
            return hashlib.sha256(tls.getpeercert(binary_form=True)).hexdigest()
    except OSError:
        return ""


def kept(proof):
    """The fingerprint of what the Secret says is to be served."""
    text = base64.b64decode(proof.kube.call("GET", SECRET)["data"]["tls.crt"]).decode()
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()


def converts(proof):
    """Whether the API server converts both kinds."""
    return all(ask(lambda path=path: proof.kube.call("GET", path)) for path in BETA.values())


def specs(proof, paths):
    """What is asked for, without the weight that the client writes."""
    found = {kind: proof.kube.call("GET", path)["spec"] for kind, path in paths.items()}
    found["nodepool"].pop("weight", None)
    return found


def healed(proof, what, ports, client):
    """v1beta1 is served again by itself, by all that run and with what the Secret says."""
    begun = time.monotonic()
    proof.until(f"after {what} v1beta1 is converted", lambda: converts(proof))
    proof.until(f"after {what} all replicas serve the same", lambda: {served(port) for port in ports} == {kept(proof)})
    proof.until(f"after {what} v1beta1 is converted by each", lambda: all(converts(proof) for _ in range(3)))
    proof.row(f"{what}: healed after", f"{time.monotonic() - begun:.1f} s")
    count = client.count
    proof.until(f"after {what} v1 is written", lambda: client.count > count)


def begin(proof, ports, way, *settings):
    """Both replicas, each with a port of its own behind the one address."""
    for name, port in ports.items():
        proof.replicas_start(name, settings=[
            "WEBHOOK_ENABLED=true", f"WEBHOOK_PORT={port}",
            f"WEBHOOK_URL=https://127.0.0.1:{way.port}/conversion/karpenter.sh", *settings])


def stop(proof):
    """All replicas end, and give the Lease back."""
    for name in proof.replicas:
        process = proof.cluster.running.pop(name, None)
        if process:
            process.terminate()
            process.wait(timeout=60)


def conversion(proof, given):
    """Certificates, replicas and the API server come and go, and nothing that is stored is lost."""
    store_as(proof, "v1beta1")
    proof.until("v1beta1 is taken", lambda: proof.apply(pool_text(replaced=BETA_ONLY)))
    before = specs(proof, BETA)
    store_as(proof, "v1")
    ports = {name: free_port() for name in ("dovetail-0", "dovetail-1")}
    way = Way(list(ports.values()))
    begin(proof, ports, way)
    stored = lambda: all(proof.kube.call("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")["status"]["storedVersions"] == ["v1"] for name in CRDS)
    proof.row("nothing is stored as v1beta1 after", f"{proof.until('nothing is stored as v1beta1', stored):.1f} s")
    proof.until("the pool is Ready", lambda: any(one["type"] == "Ready" and one["status"] == "True" for one in proof.kube.call("GET", STABLE["nodepool"])["status"]["conditions"]))
    stable = specs(proof, STABLE)
    proof.check("v1 has what v1beta1 said of the end of nodes", stable["nodepool"]["template"]["spec"].get("expireAfter") == "500h", stable["nodepool"]["template"]["spec"].get("expireAfter"))
    proof.check("v1beta1 says what an older Karpenter had stored", specs(proof, BETA) == before, json.dumps(specs(proof, BETA))[:400] if specs(proof, BETA) != before else "")
    client = Client(proof)

    first = kept(proof)
    stop(proof)
    begin(proof, ports, way, "DISABLE_LEADER_ELECTION=true")
    proof.until("both serve", lambda: {served(port) for port in ports.values()} == {kept(proof)})
    proof.kube.patch(SECRET, {"stringData": {"until": "2020-01-01T00:00:00Z"}})
    proof.until("another certificate is made", lambda: kept(proof) != first)
    healed(proof, "two replicas rotate at once", ports.values(), client)
    stop(proof)
    begin(proof, ports, way)

    subprocess.run([proof.cluster.programs["certs"], "-valid", "1s", proof.cluster.parts.pki, "client", "expired", "nobody"], check=True)
    read = lambda kind: (proof.cluster.parts.pki / f"expired.{kind}").read_text()
    time.sleep(2)
    first = kept(proof)
    proof.kube.patch(SECRET, {"stringData": {"tls.crt": read("crt"), "tls.key": read("key")}})
    expired = kept(proof)
    proof.check("an expired certificate is in the Secret", expired != first)
    proof.until("another certificate is made", lambda: kept(proof) not in (expired, first))
    healed(proof, "an expired certificate", ports.values(), client)

    proof.nothing_was_forbidden()
    proof.cluster.kill("kube-apiserver")
    proof.cluster.start("kube-apiserver")
    healed(proof, "the API server is restarted", ports.values(), client)
    # It forbids everything until it has read its roles.
    proof.since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")

    stop(proof)
    count, begun, answered = client.count, time.monotonic(), 0
    while time.monotonic() - begun < given.down:
        answered += converts(proof)
        time.sleep(1)
    written = client.count - count
    proof.row(f"no replica for {given.down:.0f} s: writes by v1", written)
    proof.check("without a replica v1 is written on", written > given.down, written)
    proof.check("without a replica v1beta1 is refused", answered == 0, answered)
    begin(proof, ports, way)
    healed(proof, f"no replica for {given.down:.0f} s", ports.values(), client)

    client.ended = True
    client.join()
    now = {kind: proof.kube.call("GET", path) for kind, path in {"v1": STABLE["nodepool"], "v1beta1": BETA["nodepool"]}.items()}
    counts = {kind: one["metadata"]["annotations"].get(COUNT) for kind, one in now.items()}
    weights = {kind: one["spec"].get("weight") for kind, one in now.items()}
    proof.check("both versions have the last write that was acknowledged", set(counts.values()) == {str(client.count)}, counts)
    proof.check("and its weight", set(weights.values()) == {1 + (client.count - 1) % 100}, weights)
    proof.check("v1 is as it was", specs(proof, STABLE) == stable)
    proof.check("v1beta1 is as it was", specs(proof, BETA) == before)
    proof.check("no write of v1 was refused", not client.refusals, client.refusals[:3])
    proof.row("writes by v1, and those that were to come again", f"{client.count}, {client.away}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--down", type=float, default=20, help="seconds without any replica; the issue says ten minutes")
    end(play(conversion, Proof("conversion"), parser.parse_args()))


if __name__ == "__main__":
    main()
