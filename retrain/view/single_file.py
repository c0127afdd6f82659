"""`retrain view --html`: the page, its code and some episodes in one file that loads nothing.

The modules of the page are put one after the other, each in a function that returns what it
exports. Text that is data stands in a block that no browser runs, with "<" written as an escape, so
that nothing in it can end the block; the page's policy admits its own script and style by their
hashes and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from retrain.errors import RunFolderError
from retrain.report.atomic import replace_bytes
from retrain.view.assets import read_asset
from retrain.view.encoding import encoded
from retrain.view.packing import Packed, pack
from retrain.view.runs import RunPlace

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (async function|function|const) (\w+)", re.MULTILINE)
_STYLE = re.compile(r'<link rel="stylesheet" href="/assets/(\w+\.css)">\n')
_OTHERS = re.compile(r'<(?:link rel="(?:icon|modulepreload)"|script type="module").*\n')


def write_single_file(
    path: Path, places: Sequence[RunPlace], *, title: str, most: int, images: Sequence[Path] = ()
) -> Packed:
    """Write a run into one HTML file.

    Args:
        path: The file; one that is there is replaced.
        places: The runs.
        title: What the page calls them together.
        most: Most episodes in it.
        images: Folders beside the runs' whose pictures may stand in it.

    Returns:
        What it holds.

    Raises:
        RunFolderError: The file cannot be written.
    """
    packed = pack(places, title, most, images)
    try:
        replace_bytes(path, single_page(packed).encode("utf-8", "replace"))
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be written: {error.strerror or error}") from error
    return packed


def single_page(packed: Packed) -> str:
    """The page as one text."""
    page = read_asset("index.html")
    style = "".join(read_asset(name) for name in _STYLE.findall(page))
    script = bundle("main")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    )
    data = f'<script type="application/json" id="packed">{data_block(packed.document)}</script>\n'
    code = f'<script type="module">{script}</script>\n'
    page = _OTHERS.sub("", _STYLE.sub("", page))
    return page.replace("</head>", head + "</head>").replace("</body>", data + code + "</body>")


def data_block(document: object) -> str:
    """JSON that can stand in a script element: nothing in it ends or comments the element."""
    return encoded(document).decode().replace("<", "\\u003c")


def bundle(entry: str) -> str:
    """The modules that one needs, and itself last, as one script.

    Args:
        entry: Its name, without the ending.
    """
    done: dict[str, str] = {}
    _add(entry, done)
    script = "".join(done.values())
    if "</script" in script.lower():
        raise ValueError("a module of the page holds the end of a script element")
    return script


def _add(name: str, done: dict[str, str]) -> None:
    source = read_asset(f"{name}.js")
    for _, needed in _IMPORT.findall(source):
        if needed not in done:
            _add(needed, done)
    body = _IMPORT.sub(r"const { \1 } = $\2;\n", source)
    exports = ", ".join(name for _, name in _EXPORT.findall(body))
    body = _EXPORT.sub(r"\1 \2", body)
    done[name] = f"const ${name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
