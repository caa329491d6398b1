"""The console of a live sandbox in headless Chromium: check.py URL FOLDER_FOR_PICTURES.

Pools, nodes and decisions appear; search, filter, explain, what EC2 does; a phone; nothing from elsewhere."""

import json
import sys
import urllib.error
import urllib.request

from browser import Browser


def post(url, body=None, **headers):
    """Status and text of a request to the sandbox."""
    data = b"" if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json", **headers}, method="POST")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def appears(browser, pictures):
    browser.wait("typeof now !== 'undefined' && now && now.nodes.some(n => n.state === 'ready' && n.pods.some(p => p[3] === 'ready'))", "a node is ready and has pods")
    browser.wait("document.querySelectorAll('#timeline button').length > 5", "decisions appear")
    browser.wait("/leader dovetail-\\d, term \\d/.test(document.querySelector('#leader').textContent)", "leader and term are shown")
    assert browser.eval("document.querySelectorAll('#pipeline li').length") >= 12
    assert browser.eval("document.querySelector('#price').textContent").startswith("$")
    row = browser.eval("document.querySelector('#pools tbody tr').innerText.replace(/\\s+/g, ' ')")
    assert row.startswith("default") and "✓ Ready" in row and " of 1000" in row and "100 % of all" in row, row
    browser.wait("!!document.querySelector('#cost .spent')", "the curve is drawn")
    browser.picture(f"{pictures}/light.png")
    browser.eval("document.getElementById('nodes-title').scrollIntoView()")
    browser.wait("document.querySelectorAll('#fleet .node').length > 0 && !!document.querySelector('#fleet .cell-ready')", "nodes are drawn, with their pods")


def shut(browser):
    browser.eval("document.getElementById('detail').close()")
    browser.wait("trail.length === 0", "the panel has closed")


def explains(browser, url):
    """A decision, a node, a pool and a pod that fits nowhere say why."""
    launched = "[...document.querySelectorAll('#timeline button')].find(b => b.textContent.includes('launched instance'))"
    browser.wait(f"!!{launched}", "a launch is told")
    browser.eval(f"{launched}.click()")
    why = browser.eval("document.getElementById('detail-body').innerText")
    assert "instance_type" in why and "trace " in why and "Ask why" in why, why
    said = "(document.getElementById('explain')?.innerText || '')"
    browser.eval("[...document.querySelectorAll('#detail-body button')].find(b => b.textContent.startsWith('node')).click()")
    browser.wait(f"/^(Node|NodeClaim|NodePool) /.test({said})", "the decision leads to an answer")
    shut(browser)
    browser.eval("show({ kind: 'node', name: now.nodes.find(n => n.state === 'ready' && n.claim).key })")
    browser.wait(f"{said}.includes('Why it exists') && /Why it stays|It is going/.test({said})", "a node says why it stays")
    shut(browser)
    browser.eval("document.querySelector('#pools button').click()")
    browser.wait(f"{said}.includes('NodePool default') && {said}.includes('limit')", "a pool says what it may still launch")
    shut(browser)

    huge = {"metadata": {"name": "huge"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "400"}}}]}}
    assert post(f"{url}api/v1/namespaces/default/pods", huge)[0] == 201
    group = "[...document.querySelectorAll('#waiting details')].find(d => d.textContent.includes('1 × default/huge'))"
    browser.wait(f"{group}?.textContent.includes('no place') && {group}.textContent.includes('needs 400 CPU')", "a pod that fits nowhere waits with its reason")
    event = "[...document.querySelectorAll('#events li')].find(row => row.innerText.includes('FailedScheduling') && row.innerText.includes('default/huge'))"
    browser.wait(f"!!{event}", "its Kubernetes event is shown")
    browser.eval(f"{event}.querySelector('button').click()")
    browser.wait(f"{said}.includes('Pod default/huge gets no node')", "an event leads to an answer")
    shut(browser)
    browser.eval(f"{group}.open = true; {group}.querySelector('button').click()")
    browser.wait(f"{said}.includes('Pod default/huge gets no node') && {said}.includes(\"lower the pod's request of cpu\")", "it says what would let it run")
    shut(browser)


def finds(browser):
    pod = browser.eval("now.nodes.find(n => n.pods.some(p => !p[0].startsWith('kube-system'))).pods.find(p => !p[0].startsWith('kube-system'))[0]")
    browser.key("/")
    assert browser.eval("document.activeElement.id") == "search", "a slash goes to the search"
    browser.write(pod)
    browser.eval("document.getElementById('nodes-title').scrollIntoView()")
    browser.wait("document.querySelectorAll('#fleet .node.found').length === 1 && kept.length === 1", f"{pod} is on one node")
    change = "document.getElementById('{0}').value = '{1}'; document.getElementById('{0}').dispatchEvent(new Event('input'))"
    browser.eval(change.format("search", "no such thing"))
    assert browser.eval("document.querySelectorAll('#fleet .node').length") == 0
    browser.eval(change.format("search", ""))
    both, counts = browser.eval("now.nodes.length"), []
    for kind in ("spot", "on-demand"):
        browser.eval(change.format("kind", kind))
        counts.append(browser.eval("kept.length"))
        assert browser.eval(f"kept.every(n => n.capacity === '{kind}')"), kind
    assert sum(counts) == both, (counts, both)
    browser.eval(change.format("kind", ""))


def ec2(browser, url):
    """EC2's part: from the page alone, within bounds, and what follows is seen."""
    act = f"{url}sandbox/ec2?do=no-price"
    assert post(act)[0] == 403 and post(act, Origin="http://localhost:1", **{"X-Dovetail-Console": "1"})[0] == 403, "another page"
    status, said = post(f"{url}sandbox/ec2?do=quota&capacity=gold&vcpus=1", **{"X-Dovetail-Console": "1"})
    assert status == 400 and "on-demand or spot" in said, (status, said)
    press = "document.querySelector('#ec2 [data-do={}]').click()"
    told = lambda text: f"document.getElementById('ec2-said').textContent.includes({text!r})"  # noqa: E731
    state = lambda text: f"document.getElementById('ec2-state').textContent.includes({text!r})"  # noqa: E731
    for action, words, after in (("quota", "64 vCPUs", "quota of Standard/on-demand: 64 vCPUs"), ("no-quota", "no quota", "nothing is out of the ordinary"), ("price", "3 times", "3 times as high"), ("no-price", "as they were", "nothing is out"),
                                 ("sold-out", "is sold out", "/* is sold out"), ("zone-down", "is down for 10 minutes", " is down"), ("zone-up", "is up", "nothing is out")):
        browser.eval(press.format(action))
        browser.wait(told(words), f"{action} is said")
        browser.wait(state(after), f"{action} is the state")
    browser.wait("document.getElementById('ec2-node').value", "there is a spot node to take back")
    node = browser.eval("document.getElementById('ec2-node').value")
    browser.eval(press.format("interrupt"))
    browser.wait(told("takes " + node), "the interruption is said")
    browser.wait(f"now.timeline.some(l => l.event === 'step') && (n => !n || n.state === 'leaving')(now.nodes.find(n => n.name === {node!r}))", "the node leaves")


def check(url, pictures):
    browser = Browser(1200, 900)
    try:
        browser.scheme("light")
        browser.open(url)
        appears(browser, pictures)
        explains(browser, url)
        finds(browser)
        ec2(browser, url)
        browser.eval("scrollTo(0, 0)")
        browser.scheme("dark")
        browser.size(1600, 1000)
        browser.wait("innerWidth === 1600", "1600 px")
        browser.picture(f"{pictures}/dark.png")
        browser.size(400, 800)
        browser.wait("innerWidth === 400", "400 px")
        wide = browser.eval("document.documentElement.scrollWidth")
        assert wide <= 400, f"{wide} px wide"
        browser.picture(f"{pictures}/phone.png")
        host = url.split("/")[2]
        others = {asked for asked in browser.asked_for() if not asked.startswith("about:") and asked.split("/")[2] != host}
        assert not others, others
        assert not browser.complaints(), browser.complaints()
    finally:
        browser.close()


if __name__ == "__main__":
    check(sys.argv[1], sys.argv[2])
    print("the console holds")
