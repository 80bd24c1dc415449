"""Opens pages of profiles in Chromium and uses them: check_report.py PAGE [BIG_PAGE].

Fails on a script error, a request, a slow first paint, a finding that does not move the timeline,
keys, pointer or search without effect, tables that do not sort. BIG_PAGE has 10^6 events: its
frame times, without what else the machine did, are told and held to a limit.
"""
import json
import pathlib
import sys

from chromium import Chromium, found

# A frame of 10^6 events must take less than this in the script, on one core without a GPU.
FRAME_MS = 25
# The same frames are drawn so often, and each counts with its least time: what else the machine does only adds.
PASSES = 3
# The page itself, before the timeline is unpacked.
FIRST_PAINT_MS = 3000

FAILED = []


def check(holds, what):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        FAILED.append(what)


def live(browser):
    browser.wait("document.querySelector('.tl.live') && window.timeline && timeline.stats.frames > 0", limit=60)


def view(browser):
    return browser.evaluate("[timeline.view.t0, timeline.view.t1]")


def settled(browser):
    """Where the timeline looks when nothing moves any more."""
    script = """(async () => { let last = ''; for (let i = 0; i < 100; i++) {
      await new Promise((next) => setTimeout(next, 60));
      const now = `${timeline.view.t0} ${timeline.view.t1}`; if (now === last) break; last = now; }
      return [timeline.view.t0, timeline.view.t1]; })()"""
    return browser.evaluate(script)


def centre(browser):
    return browser.evaluate("""(() => { const canvas = timeline.parts.canvas;
      canvas.scrollIntoView({block: 'center'});
      const box = canvas.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + 8, box.width]; })()""")


def use(browser, page):
    browser.open(page)
    live(browser)
    # The entry comes a little after the paint that it tells of.
    browser.wait("performance.getEntriesByName('first-contentful-paint').length > 0")
    paint = browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    print(f"first paint {paint:.0f} ms")
    check(0 < paint < FIRST_PAINT_MS, "first paint in time")
    whole = view(browser)

    place = browser.evaluate("""(() => { const button = document.querySelector('.places [data-from]');
      if (!button) return null; button.focus(); button.click();
      return [Number(button.dataset.from), Number(button.dataset.to)]; })()""")
    if place:
        t0, t1 = settled(browser)
        check(t0 <= place[0] and place[1] <= t1 and t1 - t0 < 4 * (place[1] - place[0]) + 2000,
              "a finding's place is shown with a little around it")
        check(browser.evaluate("timeline.mark && document.activeElement === timeline.parts.canvas"),
              "it is marked, and keys go to the timeline")
        check("view=" in browser.evaluate("new Promise(r => setTimeout(() => r(location.hash), 600))"),
              "the address says what is seen")
    else:
        print("SKIPPED: this page has no finding, so that no jump to one is tested")
        browser.evaluate("timeline.parts.canvas.focus()")
    browser.key("0")
    check([round(t) for t in settled(browser)] == [round(t) for t in whole], "0 shows all")
    browser.evaluate("timeline.parts.canvas.focus()")
    browser.key("+")
    near = settled(browser)
    check(near[1] - near[0] < 0.7 * (whole[1] - whole[0]), "+ zooms in")
    browser.key("ArrowRight")
    check(settled(browser)[0] > near[0], "the arrow key moves")
    x, y, width = centre(browser)
    before = settled(browser)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    after = settled(browser)
    check(after[1] - after[0] < before[1] - before[0], "the wheel zooms")
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x - 80, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x - 80, y, button="left", clickCount=1)
    moved = settled(browser)
    check(moved[0] > after[0] and abs((moved[1] - moved[0]) - (after[1] - after[0])) < 2, "a drag moves")
    browser.key("0")
    settled(browser)
    browser.key(".")
    settled(browser)
    told = browser.evaluate("timeline.parts.detail.textContent")
    check(", for " in told, "keys go from span to span, and what they are is told")
    name = browser.evaluate("timeline.data.names[timeline.data.tracks.find((t) => t.name && t.n).name[0]]")
    found_some = browser.evaluate(f"timeline.search({json.dumps(name[:12])})")
    check(found_some > 0, f"search finds {name[:12]!r}")
    browser.evaluate("timeline.next(1)")
    check(browser.evaluate("timeline.selected !== null"), "the next found is selected")
    check(browser.evaluate("timeline.search('no such name at all')") == 0, "what is not there is not found")
    browser.evaluate("timeline.search('')")
    check(browser.evaluate("""(() => { const table = document.querySelector('#kernels table:last-of-type');
      const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.dataset.k === 'count');
      if (at < 0) return true;
      table.tHead.rows[0].cells[at].querySelector('button').click();
      const values = [...table.tBodies[0].rows].map((row) => Number(row.cells[at].dataset.v || row.cells[at].textContent));
      return values.every((value, i) => !i || values[i - 1] >= value); })()"""), "a table sorts by a column")
    check(browser.evaluate("document.querySelectorAll('table').length === 0 || document.querySelectorAll('.bar [aria-label^=Copy]').length > 0"),
          "tables can be copied")
    browser.open(page, width=390)
    live(browser)
    wide = browser.evaluate("document.documentElement.scrollWidth")
    check(wide <= 390, f"no sideways scrolling at 390 px ({wide})")
    for error in browser.errors():
        check(False, f"no error: {error}")


def big(browser, page):
    size = pathlib.Path(page.removeprefix("file://")).stat().st_size
    browser.open(page)
    live(browser)
    spans = browser.evaluate("timeline.data.tracks.reduce((sum, t) => sum + t.n, 0)")
    ready = browser.evaluate("performance.now()")
    print(f"{spans} events, page of {size / 1e6:.2f} MB, timeline drawn {ready:.0f} ms after opening")
    figures = browser.evaluate("""(async () => {
      const times = new Array(120).fill(Infinity); const drawn = []; const gaps = []; let last = performance.now();
      const whole = timeline.end;
      for (let frame = 0; frame < PASSES * 120; frame++) {
        const k = frame % 120;
        const span = whole * Math.pow(1e-5, (k % 60) / 59);
        const at = whole * (0.1 + 0.8 * ((k * 37) % 120) / 120);
        timeline.look(at - span / 2, at + span / 2);
        await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
        const now = performance.now(); gaps.push(now - last); last = now;
        times[k] = Math.min(times[k], timeline.stats.last); drawn.push(timeline.stats.drawn);
      }
      const sorted = (list) => [...list].sort((a, b) => a - b);
      const at = (list, share) => sorted(list)[Math.floor(share * (list.length - 1))];
      return { median: at(times, .5), p95: at(times, .95), most: at(times, 1), drawn: at(drawn, 1), gap: at(gaps, .5) };
    })()""".replace("PASSES", str(PASSES)), limit=120)
    print(json.dumps(figures))
    check(figures["p95"] <= FRAME_MS, f"95 % of frames within {FRAME_MS} ms: {figures['p95']:.1f} ms, median {figures['median']:.1f}")
    check(figures["drawn"] <= 50_000, f"no frame draws more than 50,000 rectangles: {figures['drawn']}")
    for error in browser.errors():
        check(False, f"no error: {error}")


def pictures(browser, page, stem):
    for dark in (False, True):
        for width in (1280, 390):
            browser.open(page, width=width, dark=dark)
            live(browser)
            browser.picture(f"{stem}-{'dark' if dark else 'light'}-{width}.png")


def main():
    path = found()
    if not path:
        print("SKIPPED: no Chromium here")
        return 77
    browser = Chromium(path)
    try:
        if sys.argv[1] == "--pictures":
            for page in sys.argv[3:]:
                pictures(browser, pathlib.Path(page).resolve().as_uri(), sys.argv[2] + "/" + pathlib.Path(page).stem)
        else:
            use(browser, pathlib.Path(sys.argv[1]).resolve().as_uri())
            if len(sys.argv) > 2:
                big(browser, pathlib.Path(sys.argv[2]).resolve().as_uri())
    finally:
        browser.close()
    if FAILED:
        print(f"{len(FAILED)} failed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
