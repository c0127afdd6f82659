"""The images of an episode: which are shown, from where, and what a hostile row does not reach."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from small_png import png
from viewed_runs import episode, turn, write_iteration

from retrain.errors import DataError
from retrain.types import Segment
from retrain.view import album, pictures
from retrain.view.app import make_app
from retrain.view.following import Following
from retrain.view.packing import pack
from retrain.view.pictures import Pictures, picture_id, picture_kind
from retrain.view.runs import find_runs
from retrain.view.shown_runs import ShownRuns
from retrain.view.single_file import single_page

LOCAL = "http://127.0.0.1:1234"


def uri(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder beside a data folder, and a folder of pictures that retrain made."""
    monkeypatch.setenv("RETRAIN_IMAGES", str(tmp_path / "made"))
    for name in ("run", "data", "made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cat.png").write_bytes(png(len(name)))
    return tmp_path / "run"


def shows(run: Path, *images: str) -> None:
    """Record two episodes that show images."""
    segment = Segment(tuple(b"look "), (turn("a cat"),), images)
    write_iteration(run, 1, [episode(segments=(segment,), slot=slot) for slot in range(2)])


async def asked(run: Path, *paths: str, images: tuple[Path, ...] = ()) -> list[httpx.Response]:
    followed = [Following(place) for place in find_runs(run)]
    for one in followed:
        one.look()
    app = make_app(ShownRuns(followed, images=images), title="t")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=LOCAL) as client:
        return [await client.get(path) for path in paths]


async def test_pictures_are_served_as_they_are(run: Path) -> None:
    sources = [str(run / "cat.png"), str(run.parent / "made" / "cat.png"), uri(png(3))]
    shows(run, *sources)
    paths = [f"/api/image/run/1.2/{picture_id(source)}" for source in sources]
    told, *found = await asked(run, "/api/episode/run/1.2", *paths)
    images = told.json()["streams"][0]["images"]
    assert [image["why"] for image in images] == [None, None, None]
    assert [image["id"] for image in images] == [path.rpartition("/")[2] for path in paths]
    assert max(len(image["name"]) for image in images) <= 300
    assert [answer.content for answer in found] == [png(3), png(4), png(3)]
    assert {answer.headers["content-type"] for answer in found} == {"image/png"}
    assert {answer.headers["x-content-type-options"] for answer in found} == {"nosniff"}


async def test_a_folder_that_is_named_is_shown_too(run: Path) -> None:
    cat = run.parent / "data" / "cat.png"
    shows(run, str(cat))
    path = f"/api/image/run/1.1/{picture_id(str(cat))}"
    (refused,) = await asked(run, path)
    assert refused.status_code == 404 and "--images FOLDER" in refused.json()["error"]
    (found,) = await asked(run, path, images=(cat.parent,))
    assert found.content == png(4)


async def test_only_what_the_episode_shows_is_served(run: Path) -> None:
    shows(run, str(run / "cat.png"))
    other = picture_id(str(run.parent / "made" / "cat.png"))
    for path in (f"/api/image/run/1.1/{other}", "/api/image/run/1.1/..%2f..%2fcat.png"):
        (answer,) = await asked(run, path)
        assert answer.status_code == 404


def hostile(run: Path, name: str) -> str:
    """What a row may name to reach what it must not."""
    outside, inside = run.parent / "data" / "cat.png", run / name
    if name == "link":
        inside.symlink_to(outside)
    elif name == "circle":
        inside.symlink_to(inside)
    elif name == "pipe":
        os.mkfifo(inside)
    elif name == "folder":
        inside.mkdir()
    elif name == "text":
        inside.write_text("root:x:0:0")
    elif name == "drawing":
        inside.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    known = {
        "up": f"{run}/../data/cat.png",
        "absolute": str(outside),
        "null": f"{run}/cat\0.png",
        "url": "http://127.0.0.1:9/cat.png",
        "svg": "data:image/svg+xml;base64," + base64.b64encode(b"<svg/>").decode(),
        "plain": "data:text/html,<script>alert(1)</script>",
        "broken": "data:image/png;base64,!!!",
        "empty": "",
    }
    return known.get(name, str(inside))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("up", "outside the run folder"),
        ("absolute", "outside the run folder"),
        ("link", "outside the run folder"),
        ("circle", "cannot be read|outside"),
        ("null", "cannot be read"),
        ("pipe", "is no file"),
        ("folder", "is no file|cannot be read"),
        ("gone", "No such file"),
        ("text", "begins like no PNG"),
        ("drawing", "begins like no PNG"),
        ("url", "asks no other machine"),
        ("svg", "begins like no PNG"),
        ("plain", "no data: URI in base64"),
        ("broken", "no data: URI in base64"),
        ("empty", "outside the run folder"),
    ],
)
def test_what_must_not_be_read_is_named_with_the_reason(
    run: Path, tmp_path: Path, name: str, why: str
) -> None:
    source = hostile(run, name)
    shown = Pictures([run])
    with pytest.raises(DataError, match=why) as refusal:
        shown.read(source)
    assert shown.document(source)["why"] == str(refusal.value)


def test_what_is_not_read_holds_no_file_open(run: Path) -> None:
    sources = [hostile(run, name) for name in ("folder", "pipe", "text")]
    shown, opened = Pictures([run]), Path("/proc/self/fd")
    if not opened.exists():
        pytest.skip("no list of open files on this system")
    before = len(list(opened.iterdir()))
    for source in sources * 20:
        assert shown.document(source)["why"] is not None
    assert len(list(opened.iterdir())) < before + 20


def test_a_picture_that_is_too_large_is_not_shown(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "LARGEST", 60)
    for source in (str(run / "cat.png"), uri(png(3))):
        with pytest.raises(DataError, match="at most 0 are shown"):
            Pictures([run]).read(source)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\xff\xd8\xff\xe0" + bytes(12), "image/jpeg"),
        (b"GIF89a" + bytes(10), "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", None),
        (b"BM\x10\0\0\0" + bytes(10), "image/bmp"),
        (b"BM25 is a rankin", None),
        (b"", None),
    ],
)
def test_pictures_are_known_by_how_they_begin(head: bytes, kind: str | None) -> None:
    assert picture_kind(head) == kind


def packed_images(run: Path) -> dict[str, Any]:
    (packed,) = pack(find_runs(run), "t", 9).document["runs"]
    images: dict[str, Any] = packed["images"]
    return images


def test_a_single_file_holds_each_picture_once(run: Path) -> None:
    sources = [str(run / "cat.png"), "/etc/hostname"]
    shows(run, *sources)
    assert packed_images(run) == {picture_id(sources[0]): uri(png(3))}
    page = single_page(pack(find_runs(run), "t", 9))
    block = json.loads(page.split('id="packed">')[1].split("</script>")[0])
    assert json.dumps(block).count(uri(png(3))) == 1
    assert "img-src data:" in page


def test_a_single_file_leaves_out_what_does_not_fit(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = run / "large.png"
    large.write_bytes(png(200) + bytes(5000))
    shows(run, str(large), str(run / "cat.png"))
    monkeypatch.setattr(album.Album.__init__, "__defaults__", (4000,))
    assert list(packed_images(run)) == [picture_id(str(run / "cat.png"))]
