"""The console with a cluster that is made up, in headless Chromium: looks.py FOLDER_FOR_PICTURES.

Three widths in both themes with contrast enough, everything by keyboard, a stranger's three questions, hostile names."""

import sys

import made
from browser import Browser

#: Texts that stand out too little (WCAG AA: 4.5).
PALE = """(() => {
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  const pale = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length) continue;
    const svg = e instanceof SVGElement, style = getComputedStyle(e), [a, b] = [light(rgb(svg ? style.fill : style.color)), light(behind(svg ? e.ownerSVGElement.parentElement : e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) pale.push([e.tagName, e.textContent.slice(0, 40), ((a + .05) / (b + .05)).toFixed(2)]);
  }
  return pale.slice(0, 8);
})()"""


def tab_to(browser, script, what, most=80):
    """Presses Tab until the script says true of the element with the focus, `e`."""
    for _ in range(most):
        browser.key("Tab")
        if browser.eval(f"(e => {script})(document.activeElement)"):
            return
    raise AssertionError(f"Tab never comes to {what}")


def explained(browser, what):
    browser.wait("document.getElementById('detail').open && document.getElementById('explain')?.textContent.includes('gets no node')", f"{what} is explained")


def widths(browser, pictures):
    for width in (400, 1000, 1600):
        browser.size(width, 900)
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            browser.wait(f"innerWidth === {width} && matchMedia('(prefers-color-scheme: {scheme})').matches", f"{width} px, {scheme}")
            wide = browser.eval("document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} px wide at {width}"
            assert not browser.eval(PALE), (width, scheme, browser.eval(PALE))
            browser.picture(f"{pictures}/{width}-{scheme}.png")
    colours = browser.eval("getComputedStyle(document.body).backgroundColor")
    browser.eval("document.getElementById('theme').click()")
    assert browser.eval("getComputedStyle(document.body).backgroundColor") != colours, "the button changes the theme"
    browser.eval("document.getElementById('theme').click()")
    assert browser.eval("getComputedStyle(document.body).backgroundColor") == colours


def stranger(browser):
    """Which pool is full, what costs most, why does a pod wait: in words, not in colours alone."""
    rows = browser.eval("[...document.querySelectorAll('#pools tbody tr')].map(row => row.innerText.replace(/\\s+/g, ' '))")
    assert [row for row in rows if " full " in f" {row} " and "nearly" not in row][0].startswith(("Pool batch", "batch")), rows
    assert "the most" in rows[0] and "gpu" in rows[0] and "77 %" in rows[0], rows
    assert any("edge" in row and "not Ready" in row and "no subnet" in row for row in rows), rows
    waiting = browser.eval("document.getElementById('waiting').innerText")
    assert "25 × default/report" in waiting and "limits leave no room" in waiting and "42 pods" in browser.eval("document.getElementById('waiting-count').textContent"), waiting
    unused = browser.eval("document.getElementById('commitments').innerText")
    assert "ri-1: $0.1200 of $0.5400 an hour unused, ends 2027-03-01" in unused and "and 3 more" in unused, unused
    room = browser.eval("document.getElementById('held').innerText")
    assert "capacity buffer default/spare: room for 2 of 2 pods ($0.0834 an hour)" in room, room
    way = browser.eval("document.getElementById('way').innerText")
    assert "should have joined by" in way and "90 s ago" in way and "in 12 min" in way and "expires" not in way, way
    curve = browser.eval("document.getElementById('cost').getAttribute('aria-label')") + browser.eval("document.getElementById('cost').textContent")
    assert "$18.60 at most" in curve and ":30" in curve, curve
    legend = browser.eval("document.getElementById('legend').innerText")
    assert "797 ready" in legend and "16 expected" in legend, legend
    browser.eval("document.getElementById('group').value = 'pool'; document.getElementById('group').dispatchEvent(new Event('input'))")
    heads = browser.eval("lines.filter(line => line.head != null).map(line => line.words)")
    assert heads == ["batch · 9 nodes, $0.7200 an hour", "default · 43 nodes, $2.92 an hour", "gpu · 1 node, $12.24 an hour"], heads


def recorded(browser):
    """Kubernetes events: what they are about, the latest first, those that nobody has got; a name opens why."""
    rows = browser.eval("[...document.querySelectorAll('#events li')].map(row => row.innerText.replace(/\\s+/g, ' '))")
    assert len(rows) == 5 and "Namespace kube-system" in rows[0] and "Warning LaunchHeld NodeClaim default-61 a ceiling holds it not written" in rows[1], rows
    assert "Normal DisruptionTerminating Node ip-10-0-0-60.ec2.internal" in rows[2] and "Warning FailedScheduling Pod default/report-0 limits leave no room" in rows[3], rows
    browser.eval("document.getElementById('search').value = 'report'; document.getElementById('search').dispatchEvent(new Event('input'))")
    assert browser.eval("document.querySelectorAll('#events li').length") == 1, "the search is for events too"
    browser.eval("document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'))")
    browser.eval("scrollTo(0, 0); document.activeElement.blur()")
    for kind, title in (("NodeClaim ", "nodeclaim default-61"), ("Node ", "node ip-10-0-0-60.ec2.internal"), ("Pod ", "pod default/report-0"), ("NodePool ", "nodepool edge")):
        tab_to(browser, f"e.closest('#events') && e.tagName === 'BUTTON' && e.textContent.startsWith({kind!r})", f"an event of a {kind}", 200)
        browser.key("Enter")
        explained(browser, f"the object of an event, a {kind}")
        assert browser.eval("document.getElementById('detail-name').textContent") == title
        browser.key("Escape")
        browser.wait("!document.getElementById('detail').open", "the panel has closed")


def keyboard(browser):
    browser.eval("scrollTo(0, 0); document.activeElement.blur()")
    tab_to(browser, "e.id === 'search'", "the search")
    tab_to(browser, "e.closest('#pools') && e.textContent === 'batch'", "a pool")
    browser.key("Enter")
    explained(browser, "a pool")
    browser.key("Escape")
    browser.wait("!document.getElementById('detail').open && document.activeElement.textContent === 'batch'", "Escape closes, and the focus is where it was")
    tab_to(browser, "e.id === 'cost'", "the curve")
    browser.key("ArrowLeft")
    assert "on demand it would be" in browser.eval("document.getElementById('cost-at').textContent"), "an arrow reads the curve"
    tab_to(browser, "e.tagName === 'SUMMARY' && e.textContent.includes('report')", "pods that wait")
    browser.key("Enter")
    tab_to(browser, "e.textContent === 'report-0'", "one of them")
    browser.key("Enter")
    explained(browser, "a pod")
    text = browser.eval("document.getElementById('explain').innerText")
    assert "pod default/report-0 gets no node" in text and "raise spec.limits.cpu" in text, text
    browser.key("Escape")
    tab_to(browser, "e.parentElement.dataset.node", "the nodes")
    first = browser.eval("document.activeElement.getAttribute('aria-label')")
    assert "pods: " in first and "CPU" in first, first
    browser.key("End")
    browser.wait(f"document.activeElement.getAttribute('aria-label')?.includes('pods: ') && document.activeElement.getAttribute('aria-label') !== {first!r}", "End goes to the last node")
    browser.key("ArrowUp")
    browser.key("Enter")
    explained(browser, "a node")
    tab_to(browser, "e.closest('.many') && e.textContent.startsWith('default/')", "a pod of the node")
    browser.key("Enter")
    browser.wait("document.getElementById('detail-name').textContent.startsWith('pod default/')", "a pod is opened out of its node")
    tab_to(browser, "e.id === 'back'", "the way back")
    browser.key("Enter")
    browser.wait("document.getElementById('detail-name').textContent.startsWith('node ')", "Back goes to the node")
    browser.key("Escape")
    tab_to(browser, "e.closest('#timeline')", "the decisions")
    browser.key("ArrowDown")
    browser.key("Enter")
    browser.wait("document.getElementById('detail-body').innerText.includes('Ask why')", "a decision leads to what it names")
    tab_to(browser, "e.textContent.startsWith('nodepool default')", "the pool that it names")
    browser.key("Enter")
    explained(browser, "the pool of a decision")
    browser.key("Escape")


def hostile(browser):
    browser.wait("document.querySelectorAll('#pools tbody tr').length > 8 && document.querySelectorAll('#events li').length === 40", "hostile pools and events are shown")
    browser.eval("document.getElementById('group').value = 'zone'; document.getElementById('group').dispatchEvent(new Event('input')); document.getElementById('nodes-title').scrollIntoView()")
    for number in range(len(made.HOSTILE)):
        browser.eval(f"show({{ kind: 'node', name: now.nodes[{number}].key }})")
        browser.eval(f"show({{ kind: 'decision', line: now.timeline[now.timeline.length - 1 - {number}] }})")
        browser.eval(f"showPod(now.nodes[{number}].pods[0][0])")
        browser.wait("document.getElementById('explain').textContent.includes('gets no node')", "a hostile name is asked about")
    browser.eval("document.getElementById('detail').close()")
    text = browser.eval("document.body.innerText") + browser.eval("[...document.querySelectorAll('[aria-label], [title]')].map(e => e.getAttribute('aria-label') + e.title).join()")
    assert "\\u{1b}[31m" in text and "left\\u{202e}right" in text and "<img src=x" in text, "they are shown as what they are"
    assert not any(mark in text for mark in "\u001b\u202e\u200b"), "nothing turns or hides text"
    assert browser.eval("document.scripts.length === 1 && !document.images.length && window.hurt === undefined && ({}).hurt === undefined")
    assert browser.eval("document.documentElement.scrollWidth <= innerWidth")


def main(pictures):
    room, odd = [["capacity buffer default/spare", "room for 2 of 2 pods ($0.0834 an hour)"]], [made.recorded(text, text, text, text, text) for text in made.HOSTILE]
    odd += [made.recorded(kind, text, text, text, text) for text in made.HOSTILE for kind in ("Pod", "Node", "NodePool", "NodeClaim")]
    good = made.Made([made.state(*made.busy(), commitments=made.committed("ri-1"), events=made.recorded_on_a_bad_day(), held=room)])
    bad = made.Made([made.state(*made.hostile(), commitments=made.committed(*made.HOSTILE), events=odd, held=[[text, text] for text in made.HOSTILE])])
    browser = Browser(1000, 900)
    try:
        browser.open(good.url)
        browser.wait("document.querySelectorAll('#pools tbody tr').length === 4", "pools are shown")
        widths(browser, pictures)
        stranger(browser)
        keyboard(browser)
        recorded(browser)
        browser.open(bad.url)
        hostile(browser)
        assert not browser.complaints(), browser.complaints()
        hosts = {asked.split("/")[2] for asked in browser.asked_for() if not asked.startswith("about:")}
        assert hosts == {good.url.split("/")[2], bad.url.split("/")[2]}, hosts
    finally:
        browser.close()
        good.close()
        bad.close()


if __name__ == "__main__":
    main(sys.argv[1])
    print("the console looks well")
