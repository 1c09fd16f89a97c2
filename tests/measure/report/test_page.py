import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from fathom.measure.report import page

_PROBE = """<script>
    const seen = name => getComputedStyle(document.body)[name];
    const pictures = [...document.querySelectorAll("svg")];
    const texts = pictures.flatMap(each => [...each.querySelectorAll("text")]);
    const heights = texts.map(each => {
        const size = parseFloat(getComputedStyle(each).fontSize);
        return size * each.ownerSVGElement.getScreenCTM().d;
    });
    const sorted = heading => {
        heading.querySelector("button").click();
        const rows = [...heading.closest("table").tBodies[0].rows];
        return rows.map(row => row.cells[heading.cellIndex].textContent);
    };
    const picture = document.querySelector("svg[tabindex]"), tips = [];
    for (const key of ["ArrowRight", "ArrowRight", "ArrowLeft", "Escape"]) {
        picture.dispatchEvent(new KeyboardEvent("keydown", {key}));
        tips.push(document.querySelector(".tip").textContent);
    }
    const headings = [...document.querySelectorAll("#probe thead th")];
    parent.document.title = JSON.stringify({
        window: window.innerWidth,
        tips,
        first: document.querySelector(".overview").getBoundingClientRect().right,
        wide: document.documentElement.scrollWidth > window.innerWidth,
        empty: pictures.filter(each => !each.getBoundingClientRect().height).length,
        smallest: Math.min(...heights),
        background: seen("backgroundColor"),
        text: getComputedStyle(texts[0]).fill,
        columns: headings.flatMap(each => [sorted(each), sorted(each)]),
    });
</script>"""


def look(report, tmp_path, width, *flags):
    """Returns what a browser says of a report's page in a frame of this width.

    Windows without a screen are 500 pixels wide or more.
    """
    table = page.table(
        pd.DataFrame({"n": [10.0, None, 9.0, 1200.0], "name": ["b", "c", "a", "d"]}), "probe"
    )
    probe = tmp_path / "probe.html"
    html = (report / "report.html").read_text()
    assert html.count("<script>") == 1
    probe.write_text(
        html.replace("<script>", f'<div id="probe">{table}</div><script>').replace(
            "</body>", f"{_PROBE}</body>"
        )
    )
    frame = tmp_path / "frame.html"
    frame.write_text(
        '<meta name="color-scheme" content="light dark">'
        f'<iframe src="probe.html" style="border: 0" width="{width}" height="900"></iframe>'
    )
    browser = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--allow-file-access-from-files"),
            *(*flags, "--dump-dom", frame.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    title = re.search("<title>({.*?})</title>", browser.stdout)
    assert title, browser.stderr
    return json.loads(title[1])


needs_browser = pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium")


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [400, 1400])
def test_a_browser_shows_the_page_within_its_window_with_legible_texts(
    small_report, tmp_path, width
):
    shown = look(small_report, tmp_path, width)
    assert shown["window"] == width
    assert not shown["wide"]
    assert shown["first"] <= width  # the table of the first screen needs no scrolling
    first, second, again, nothing = shown["tips"]
    assert "%" in first or ":" in first or "\n" in first
    assert first == again != second != "" == nothing
    assert not shown["empty"]
    assert shown["smallest"] > 7
    assert (shown["background"], shown["text"]) == ("rgb(255, 255, 255)", "rgb(17, 17, 17)")
    assert shown["columns"] == [
        ["9", "10", "1,200", "-"],
        ["1,200", "10", "9", "-"],
        ["a", "b", "c", "d"],
        ["d", "c", "b", "a"],
    ]


@pytest.mark.slow
@needs_browser
def test_in_dark_mode_a_browser_shows_light_texts_on_dark(small_report, tmp_path):
    shown = look(small_report, tmp_path, 1400, "--blink-settings=preferredColorScheme=0")
    assert (shown["background"], shown["text"]) == ("rgb(22, 24, 28)", "rgb(221, 221, 221)")


def test_a_long_table_is_folded_and_has_all_its_rows():
    short, long = (page.table(pd.DataFrame({"n": range(n)}), "numbers") for n in (60, 61))
    assert "<details open>" in short
    assert "<details><summary>numbers (61 rows)</summary>" in long
    assert long.count("<tr>") == 62


def test_a_table_has_a_caption_and_its_headings_name_what_they_head():
    shown = page.table(pd.DataFrame({"workload": ["vgg", "gpt"], "n": [1, 2]}), "probe")
    assert '<caption class="hidden">probe</caption>' in shown
    assert re.findall(r'<th scope="col"[^>]*><button>(\w+)', shown) == ["workload", "n"]
    assert re.findall(r'<th scope="row">(\w+)</th>', shown) == ["vgg", "gpt"]
    assert re.findall(r'<td class="number">(\d)</td>', shown) == ["1", "2"]


def test_a_column_of_sentences_has_some_width():
    shown = page.table(pd.DataFrame({"n": [1], "why": ["not in the table"], "k": ["a b"]}), "probe")
    assert shown.count('class="words"') == 2  # its heading and its cell


def test_texts_in_a_table_are_no_markup():
    shown = page.table(pd.DataFrame({"<b>": ["<i>"]}), "<p>")
    assert not re.search("<[bip]>", shown)


def test_no_p_value_is_shown_as_zero():
    table = pd.DataFrame({"p": [0.0, 1e-15, 0.0123, np.nan], "ms": [0.0, 1e-15, 0.5, np.nan]})
    html = page.table(table, "tests")
    assert re.findall(r"<tr><th.*?>(.*?)</th><td.*?>(.*?)</td></tr>", html) == [
        ("&lt;0.0001", "0"),
        ("&lt;0.0001", "0"),
        ("0.0123", "0.5"),
        ("-", "-"),
    ]


def test_numbers_that_round_to_thousands_have_no_exponent():
    assert [page.shown(x) for x in (999.4, 999.6, 1234.5, -999.7)] == [
        *("999", "1,000", "1,234", "-1,000")
    ]
