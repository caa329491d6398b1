"""The console of a live sandbox in headless Chromium: check.py URL FOLDER_FOR_PICTURES.

Nodes appear; search, filter, a decision's explanation, both themes, 400 px, keyboard only; nothing from elsewhere."""

import sys

from browser import Browser


def check(url, pictures):
    browser = Browser(1200, 900)
    try:
        browser.scheme("light")
        browser.open(url)
        browser.wait("document.querySelectorAll('#fleet .node').length > 0", "nodes appear")
        browser.wait("[...document.querySelectorAll('#fleet .node .state')].some(e => e.textContent.startsWith('ready'))", "a node is ready")
        browser.wait("document.querySelector('#fleet .pods').textContent.includes('■')", "a node shows its pods")
        browser.wait("document.querySelectorAll('#timeline button').length > 5", "decisions appear")
        browser.wait("/dovetail-\\d, \\d/.test(document.querySelector('#leader').textContent)", "leader and term are shown")
        assert browser.eval("document.querySelectorAll('#pipeline li').length") >= 12
        assert browser.eval("document.querySelector('#price').textContent").startswith("$")
        light = browser.eval("getComputedStyle(document.body).backgroundColor")
        browser.picture(f"{pictures}/light.png")

        # A decision opens its particulars and its trace; it stays open while the page goes on.
        launched = "[...document.querySelectorAll('#timeline button')].find(b => b.textContent.includes('launched instance'))"
        browser.wait(f"!!{launched}", "a launch is told")
        browser.eval(f"{launched}.click()")
        why = browser.eval("document.querySelector('#timeline .why').textContent")
        assert "instance_type: " in why and "trace " in why, why

        # Search finds a node by one of its pods, and nothing by nonsense.
        pod = browser.eval("now.nodes.find(n => n.pods.some(p => !p[0].startsWith('kube-system'))).pods.find(p => !p[0].startsWith('kube-system'))[0]")
        browser.key("/")
        assert browser.eval("document.activeElement.id") == "search", "a slash goes to the search"
        browser.write(pod)
        browser.wait("document.querySelectorAll('#fleet .node').length === 1", f"{pod} is on one node")
        assert browser.eval("document.querySelector('#fleet .node').classList.contains('found')")
        browser.eval("document.getElementById('search').value = 'no such thing'; document.getElementById('search').dispatchEvent(new Event('input'))")
        assert browser.eval("document.querySelectorAll('#fleet .node').length") == 0
        browser.eval("document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'))")

        # Filters are kept.
        both = browser.eval("now.nodes.length")
        counts = []
        for kind in ("spot", "on-demand"):
            browser.eval(f"document.getElementById('kind').value = '{kind}'; document.getElementById('kind').dispatchEvent(new Event('input'))")
            counts.append(browser.eval("document.querySelectorAll('#fleet .node').length"))
            assert browser.eval(f"[...document.querySelectorAll('#fleet .node')].every(e => e.classList.contains('{kind}'))"), kind
        assert sum(counts) == both, (counts, both)
        browser.eval("document.getElementById('kind').value = ''; document.getElementById('kind').dispatchEvent(new Event('input'))")

        # By keyboard alone: to the nodes, along them, one opened and closed.
        browser.eval("document.getElementById('search').focus()")
        for _ in range(20):
            browser.key("Tab")
            if browser.eval("document.activeElement.parentElement.id") == "fleet":
                break
        first = browser.eval("document.activeElement.getAttribute('aria-label')")
        assert first and browser.eval("document.activeElement.parentElement.id") == "fleet", "Tab comes to the nodes"
        if both > 1:
            browser.key("ArrowRight")
            assert browser.eval("document.activeElement.getAttribute('aria-label')") != first, "an arrow goes to the next"
        browser.key("Enter")
        browser.wait("document.getElementById('detail').open", "Enter opens a node")
        assert "Price an hour" in browser.eval("document.getElementById('detail').innerText")
        browser.key("Escape")
        browser.wait("!document.getElementById('detail').open", "Escape closes it")

        # Dark, by the system and by the button.
        browser.scheme("dark")
        dark = browser.eval("getComputedStyle(document.body).backgroundColor")
        assert dark != light, (dark, light)
        browser.picture(f"{pictures}/dark.png")
        browser.eval("document.getElementById('theme').click()")
        assert browser.eval("getComputedStyle(document.body).backgroundColor") == light
        browser.eval("document.getElementById('theme').click()")
        assert browser.eval("getComputedStyle(document.body).backgroundColor") == dark

        # A phone.
        browser.size(400, 800)
        browser.wait("window.innerWidth === 400", "400 px")
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
