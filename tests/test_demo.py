import subprocess
import sys


def test_the_demo_prints_every_notion_and_writes_a_page(tmp_path):
    page = tmp_path / "demo.html"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", "-m", "evenhand.demo", str(page)],
        capture_output=True,
        text=True,
        check=True,
    )
    for words in ("demographic parity", "equalized odds", "Asian-Pac-Islander", "14,333"):
        assert words in done.stdout
        assert words in page.read_text(encoding="utf-8")
