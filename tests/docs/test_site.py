"""The documentation site, built and then opened in Chromium with no network but its own server."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import pytest
from tests.conftest import ROOT, absent

from evenhand.cli.commands import app

pytestmark = pytest.mark.slow

ELSEWHERE = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")
ELSEWHERE_IN_STYLES = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site: that of EVENHAND_SITE, or built here, with examples that have changed run."""
    if built := os.environ.get("EVENHAND_SITE"):
        return Path(built).resolve()
    if find_spec("sphinx_gallery") is None:
        absent("Sphinx (the group docs)")
    folder = tmp_path_factory.mktemp("site")
    build = [Path(sys.executable).with_name("sphinx-build"), "-n", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run([*build, ROOT / "docs", folder], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return folder


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=site)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@dataclass
class Visit:
    page: object
    elsewhere: list = field(default_factory=list)
    errors: list = field(default_factory=list)


@pytest.fixture
def open_page(browser):
    """A function that opens a page; what it wants from elsewhere is refused and recorded."""
    contexts = []

    def visit(url, **settings):
        context = browser.new_context(**settings)
        contexts.append(context)
        seen = Visit(context.new_page())

        def decide(route):
            if route.request.url.startswith(("file:", "data:", "http://127.0.0.1:")):
                route.continue_()
            else:
                seen.elsewhere.append(route.request.url)
                route.abort()

        context.route("**/*", decide)
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on("requestfailed", lambda request: seen.errors.append(request.url))
        seen.page.goto(url, wait_until="networkidle")
        return seen

    yield visit
    for context in contexts:
        context.close()


def test_the_front_page_is_whole(open_page, address):
    seen = open_page(f"{address}/index.html")
    assert (seen.elsewhere, seen.errors) == ([], [])
    assert seen.page.locator("h1").inner_text().startswith("evenhand")
    assert seen.page.locator("img[src*=before_after]").evaluate("picture => picture.naturalWidth") > 500


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "page", ["gallery/plot_01_hiring_audit", "start/words", "reference/generated/evenhand.FairPostprocessor"]
)
def test_text_fits_into_a_narrow_window(open_page, address, page, scheme):
    seen = open_page(
        f"{address}/{page}.html", viewport={"width": 400, "height": 800}, color_scheme=scheme
    ).page
    assert seen.evaluate("document.documentElement.dataset.theme") == scheme
    assert seen.evaluate("document.documentElement.scrollWidth") <= 400
    ends = seen.evaluate(
        "[...document.querySelectorAll('article :is(h1, p, dt):not(table *, .evenhand-chart *)')]"
        ".map(part => part.getBoundingClientRect().right)"
    )
    assert len(ends) > 5
    assert max(ends) <= 401


def test_tables_and_charts_can_be_read_in_a_narrow_window(open_page, address):
    """Names in tables break, and charts keep their size: their boxes scroll."""
    size = {"width": 400, "height": 800}
    seen = open_page(f"{address}/migrating/fairlearn.html", viewport=size).page
    widths = seen.locator("article table").evaluate_all("found => found.map(table => table.offsetWidth)")
    assert len(widths) > 1
    assert max(widths) <= 400
    seen = open_page(f"{address}/gallery/plot_01_hiring_audit.html", viewport=size).page
    chart = seen.wait_for_selector(".evenhand-chart svg.marks")
    assert chart.bounding_box()["width"] > 500


@pytest.mark.parametrize("opened_from", ["server", "disk"])
def test_charts_of_an_example_are_drawn(open_page, address, site, opened_from):
    root = address if opened_from == "server" else site.as_uri()
    seen = open_page(f"{root}/gallery/plot_01_hiring_audit.html")
    seen.page.wait_for_selector(".evenhand-chart svg.marks")
    assert (seen.elsewhere, seen.errors) == ([], [])
    assert seen.page.locator(".evenhand-chart svg.marks .mark-symbol path").count() >= 8


def test_an_example_has_a_picture_among_the_examples(open_page, address):
    seen = open_page(f"{address}/gallery/index.html")
    picture = seen.page.locator("img[src*=plot_01_hiring_audit]")
    assert picture.evaluate("picture => picture.naturalWidth") > 100
    assert "no_image" not in picture.get_attribute("src")


@pytest.mark.parametrize("opened_from", ["server", "disk"])
def test_mathematics_is_set(open_page, address, site, opened_from):
    root = address if opened_from == "server" else site.as_uri()
    seen = open_page(f"{root}/start/words.html")
    seen.page.wait_for_selector("mjx-container svg")
    assert (seen.elsewhere, seen.errors) == ([], [])
    assert seen.page.locator(".math").count() == seen.page.locator(".math mjx-container svg").count()
    assert seen.page.locator("mjx-merror, [data-mml-node=merror]").count() == 0


def test_the_reference_leads_to_a_page_with_its_example(open_page, address):
    seen = open_page(f"{address}/reference/index.html")
    assert (seen.elsewhere, seen.errors) == ([], [])
    seen.page.get_by_role("main").get_by_role("link", name="EqualizedOdds", exact=True).click()
    assert seen.page.locator("h1").inner_text().startswith("EqualizedOdds")
    assert "EqualizedOdds(" in seen.page.locator(".highlight-python3, .doctest").first.inner_text()


@pytest.mark.parametrize("command", [name for name in app if not name.startswith("-")])
def test_the_page_of_the_command_line_has_every_option(site, command):
    page = (site / "reference" / "command_line.html").read_text("utf-8")
    [section] = re.findall(rf'<section id="evenhand-{command}">(.*?)</section>', page, re.DOTALL)
    for part in app[command].assemble_argument_collection():
        assert part.name == "*" or f">{part.name}" in section


def test_search_finds_equalized_odds(open_page, address):
    seen = open_page(f"{address}/search.html?q=equalized+odds")
    seen.page.wait_for_selector("#search-results li a")
    found = seen.page.locator("#search-results li a").evaluate_all("links => links.map(link => link.href)")
    assert any("EqualizedOdds" in link or "words" in link for link in found)
    assert seen.elsewhere == []


def test_no_page_of_the_site_refers_to_files_elsewhere(site):
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    assert len(pages) > 60
    assert len(styles) > 3
    assert [page.name for page in pages if ELSEWHERE.search(page.read_text("utf-8"))] == []
    assert [page.name for page in styles if ELSEWHERE_IN_STYLES.search(page.read_text("utf-8"))] == []
