from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread

import pytest
from PIL import Image as Pillow

from retrain.errors import DataError
from retrain.images import Image, read_images
from retrain.vision import ImageLimits
from retrain.vision.reading import check_image, read_picture

LIMITS = ImageLimits()


def png_bytes(folder: Path) -> bytes:
    Pillow.new("RGB", (8, 4), (0, 200, 0)).save(folder / "green.png")
    return (folder / "green.png").read_bytes()


def test_a_picture_in_memory_becomes_a_file_named_by_its_content(
    tmp_path: Path, own_image_folder: Path
) -> None:
    data = png_bytes(tmp_path)
    uri = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    forms = [data, uri, {"bytes": data, "path": "gone.png"}, {"image_url": {"url": uri}}]
    images = {Image.of(form) for form in forms}
    assert len(images) == 1
    (image,) = images
    assert Path(image.source).parent == own_image_folder
    assert Path(image.source).read_bytes() == data
    assert len(repr(image)) < 300


def test_a_picture_of_pillow_is_an_image() -> None:
    image = Image.of(Pillow.new("RGB", (3, 3), (9, 8, 7)))
    assert read_picture(image.source, LIMITS).getpixel((1, 1)) == (9, 8, 7)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "not int"),
        (b"%PDF-1.7", "are no PNG"),
        ("data:image/png,raw", "no data URI in base64"),
        ({"file": "a.png"}, "has path, bytes or url, not file"),
    ],
)
def test_what_is_no_image_is_said(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Image.of(value)


def test_relative_paths_begin_at_the_rows_folder_and_urls_stay(tmp_path: Path) -> None:
    read = read_images(["a.png", "/b.png", "https://c/d.png"], tmp_path)
    assert [image.source for image in read] == [f"{tmp_path}/a.png", "/b.png", "https://c/d.png"]


def test_what_is_transparent_is_white(tmp_path: Path) -> None:
    path = tmp_path / "clear.png"
    Pillow.new("RGBA", (4, 4), (255, 0, 0, 0)).save(path)
    assert read_picture(str(path), LIMITS).getpixel((0, 0)) == (255, 255, 255)


def test_a_broken_wrong_large_or_missing_file_is_one_error_that_names_it(tmp_path: Path) -> None:
    data = png_bytes(tmp_path)
    files = {
        "broken.png": data[: len(data) // 2],
        "text.png": b"not a picture",
        "vector.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=name):
            read_picture(str(tmp_path / name), LIMITS)
    green = str(tmp_path / "green.png")
    with pytest.raises(DataError, match=r"has 8 x 4 = 32 pixels.*rendering\.images\.max_pixels"):
        check_image(green, ImageLimits(max_pixels=31))
    with pytest.raises(DataError, match=r"bytes, more than the 10.*rendering\.images\.max_bytes"):
        check_image(green, ImageLimits(max_bytes=10))
    with pytest.raises(DataError, match="no such image file"):
        check_image(str(tmp_path / "none.png"), LIMITS)
    with pytest.raises(DataError, match="no such image file"):
        read_picture(str(tmp_path), LIMITS)


def test_images_from_the_network_are_off() -> None:
    for refuse in (check_image, read_picture):
        with pytest.raises(DataError, match=r"rendering\.images\.allow_urls: true"):
            refuse("https://example.org/a.png", LIMITS)
    check_image("https://example.org/a.png", ImageLimits(allow_urls=True))


def test_many_threads_may_make_one_picture_at_the_same_time(own_image_folder: Path) -> None:
    together = Barrier(8)

    def write(number: int) -> bool:
        data = b"BM" + bytes([number // 8]) + bytes(200_000)
        together.wait(60)
        return Path(Image.of_bytes(data).source).read_bytes() == data

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(write, range(8 * 40)))
    assert len(list(own_image_folder.iterdir())) == 40


class Leading(BaseHTTPRequestHandler):
    """`/picture` is one; every other path leads somewhere else."""

    picture = b""

    def do_GET(self) -> None:
        to = {"/on": "/picture", "/ftp": "ftp://127.0.0.1:1/a", "/file": "file:///dev/null"}
        self.send_response(302 if self.path in to else 200)
        if self.path in to:
            self.send_header("Location", to[self.path])
        self.end_headers()
        self.wfile.write(self.picture)

    def log_message(self, *said: object) -> None:
        """Say nothing."""


def test_an_allowed_url_may_lead_on_to_http_alone(tmp_path: Path) -> None:
    Leading.picture = png_bytes(tmp_path)
    allowed = ImageLimits(allow_urls=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), Leading) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}"
        assert read_picture(f"{root}/on", allowed).size == (8, 4)
        for path, why in (("ftp", "unknown url type: ftp"), ("file", "is not allowed")):
            with pytest.raises(DataError, match=f"cannot be fetched.*{why}"):
                read_picture(f"{root}/{path}", allowed)
        server.shutdown()


def test_damaged_metadata_are_one_error_that_names_the_file(tmp_path: Path) -> None:
    exif = Pillow.Exif()
    exif[0x0112], exif[0x010E] = 6, "hello"
    file = tmp_path / "a.webp"
    Pillow.new("RGB", (24, 16)).save(file, exif=exif)
    whole = file.read_bytes()
    name = whole.index(b"\x01\x0e\x00\x02")  # of the description, which no longer is one
    file.write_bytes(whole[: name + 1] + b"\x00" + whole[name + 2 :])
    with pytest.raises(DataError, match=r"a\.webp: the image is damaged"):
        read_picture(str(file), LIMITS)
