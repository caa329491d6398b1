"""How long frames of the console take with 2,000 nodes and 30,000 pods: scale.py [NODES PODS]. A figure, no test."""

import http.server
import json
import os
import random
import sys
import threading

from browser import Browser

PAGE = os.path.join(os.path.dirname(__file__), "../../crates/telemetry/src/console.html")


def state(nodes, pods, turn):
    dice = random.Random(1)
    own = []
    for number in range(nodes):
        held = [[f"default/web-{number}-{n}", 500, 1 << 28] for n in range(pods // nodes)]
        # Each turn one node in a hundred changes.
        kind = "leaving" if number % 100 == turn % 100 else "ready"
        own.append({"key": f"default-{number}", "name": f"ip-10-0-{number // 256}-{number % 256}.ec2.internal", "claim": f"default-{number}", "instance": f"i-{number:017x}",
                    "state": kind, "next": "", "type": dice.choice(["m5.large", "c6i.xlarge", "r5.2xlarge"]), "zone": dice.choice(["us-east-1a", "us-east-1b"]), "capacity": dice.choice(["spot", "on-demand"]),
                    "pool": "default", "price": 0.04, "onDemand": 0.1, "since": 1000, "cpu": [7500, 8000], "memory": [1 << 34, 1 << 35], "pods": held, "trace": None, "end": None})
    rest = json.dumps({"now": 5000 + turn, "cluster": "demo", "about": "scale", "traces": "", "leader": "dovetail-0", "term": 1, "actors": [["packer", [["handled", turn]]]], "waiting": [], "waitingTotal": 0,
                       "pods": {"bound": pods, "total": pods}, "price": 80.0, "saved": 120.0, "cost": [[t, 80 + t % 7] for t in range(720)],
                       "timeline": [{"when": "1s", "t": n, "actor": "launcher", "event": "launched", "text": f"launched {n + turn}", "level": "Info", "trace": "", "fields": {}} for n in range(200)]})
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in own)
    return f'{{"nodes":[\n{lines}\n],\n{rest[1:]}'.encode()


def main(nodes, pods):
    turns = [state(nodes, pods, turn) for turn in range(12)]
    count = [0]

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/":
                body, kind = open(PAGE, "rb").read(), "text/html; charset=utf-8"
            else:
                body, kind = turns[count[0] % len(turns)], "application/json"
                count[0] += 1
            self.send_response(200)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser(1400, 1000)
    try:
        browser.open(f"http://127.0.0.1:{server.server_port}/")
        browser.wait(f"document.querySelector('#shown')?.textContent === '({nodes})'", "all nodes")
        frames = browser.eval("""new Promise(done => { const all = []; let last = performance.now(); const end = last + 15000;
            const step = t => { const d = performance.now() - last; last = performance.now(); all.push(d); scrollBy(0, all.length % 400 < 200 ? 25 : -25); last < end ? requestAnimationFrame(step) : done(all); }; requestAnimationFrame(step); })""")
        frames.sort()
        print(json.dumps({"nodes": nodes, "pods": pods, "bytes": len(turns[0]), "polls": count[0], "frames": len(frames), "p50ms": round(frames[len(frames) // 2], 1),
                          "p95ms": round(frames[int(len(frames) * .95)], 1), "maxMs": round(frames[-1], 1)}))
        assert not browser.complaints(), browser.complaints()
    finally:
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main(*(int(arg) for arg in sys.argv[1:3]) if len(sys.argv) > 2 else (2000, 30000))
