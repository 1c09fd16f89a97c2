"""Makes the README's picture of a report: the first screen of its page, and one figure.

    python benchmarks/report_picture.py FOLDER

FOLDER is one of ``fathom characterize``. Needs chromium.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

from fathom.measure.report import report
from fathom.measure.runs.folder import Folder

WIDTH, HIGHEST = 1100, 4000  # pixels of the window
SHORTEN = """<script>
const main = document.querySelector("main"), heading = document.getElementById("%s");
const all = [...main.children], first = all.findIndex(each => each.className === "overview");
const kept = [...all.slice(0, first + 1), heading];
for (let next = heading; (next = next.nextElementSibling).tagName !== "H3";)
  if (next.className === "figure") kept.push(next);
main.replaceChildren(...kept);
</script></body>"""


def main() -> None:
    """Writes the picture."""
    parser = argparse.ArgumentParser(description="Makes the README's picture of a report.")
    parser.add_argument("folder", type=Path, help="of fathom characterize")
    parser.add_argument("--figure", default="icicle", help="id of a figure; default: icicle")
    parser.add_argument("--out", type=Path, default=Path("docs/report.png"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        report.write(Folder.read(args.folder), out)
        page, shot = out / report.PAGE, out / "page.png"
        page.write_text(page.read_text().replace("</body>", SHORTEN % args.figure))
        command = [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--hide-scrollbars", f"--user-data-dir={out / 'profile'}"),
            *(f"--window-size={WIDTH},{HIGHEST}", f"--screenshot={shot}", page.as_uri()),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        write_cropped(Image.open(shot).convert("RGB"), args.out)


def write_cropped(picture: Image.Image, path: Path) -> None:
    """Writes a picture without what is blank below it."""
    background = Image.new("RGB", picture.size, picture.getpixel((0, 0)))
    box = ImageChops.difference(picture, background).getbbox()
    assert box, "the page is empty"
    bottom = min(box[3] + 16, picture.height)
    picture.crop((0, 0, picture.width, bottom)).save(path, optimize=True)


if __name__ == "__main__":
    main()
