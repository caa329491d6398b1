"""How long frames of the console take with 2,000 nodes and 30,000 pods: scale.py [NODES PODS]. A figure, no test."""

import json
import sys

import made
from browser import Browser


def state(nodes, pods, turn):
    # Each turn one node in a hundred changes.
    own = [made.node(number, pods // nodes, "leaving" if number % 100 == turn % 100 else "ready") for number in range(nodes)]
    return made.state(own, [made.pool("default", own, [("cpu", 9000, 20_000)])], timeline=[made.event(n, text=f"launched {n + turn}") for n in range(200)], turn=turn)


def main(nodes, pods):
    turns = [state(nodes, pods, turn) for turn in range(12)]
    server = made.Made(turns)
    browser = Browser(1400, 1000)
    try:
        browser.open(server.url)
        browser.wait(f"document.querySelector('#shown')?.textContent === '({nodes})'", "all nodes")
        browser.eval("document.getElementById('fleet').scrollIntoView()")
        frames = browser.eval("""new Promise(done => { const all = []; let last = performance.now(); const end = last + 15000;
            const step = t => { const d = performance.now() - last; last = performance.now(); all.push(d); scrollBy(0, all.length % 400 < 200 ? 25 : -25); last < end ? requestAnimationFrame(step) : done(all); }; requestAnimationFrame(step); })""")
        frames.sort()
        print(json.dumps({"nodes": nodes, "pods": pods, "bytes": len(turns[0]), "polls": server.polls, "frames": len(frames), "p50ms": round(frames[len(frames) // 2], 1), "p95ms": round(frames[int(len(frames) * .95)], 1), "maxMs": round(frames[-1], 1)}))
        browser.picture("target/console/scale.png")
        assert not browser.complaints(), browser.complaints()
    finally:
        browser.close()
        server.close()


if __name__ == "__main__":
    main(*(int(arg) for arg in sys.argv[1:3]) if len(sys.argv) > 2 else (2000, 30000))
