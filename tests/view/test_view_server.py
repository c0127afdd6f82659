import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from viewed_runs import HOSTILE, episode, turn, varied, write_iteration, write_run

from retrain.errors import Boundary, EpisodeError
from retrain.view.app import make_app
from retrain.view.assets import asset_names, read_asset
from retrain.view.following import Following
from retrain.view.runs import RunPlace
from retrain.view.shown_runs import ShownRuns

LOCAL = "http://127.0.0.1:1234"
OTHERS = ("index.html", "main.js")


def followed(folder: Path) -> Following:
    following = Following(RunPlace("run", folder), poll=0.05)
    following.look()
    return following


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    following = followed(write_run(tmp_path))
    transport = httpx.ASGITransport(make_app(ShownRuns([following]), title="calculator"))
    async with httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:
        yield client
    following.stop()


async def test_the_page_and_its_files_are_served_under_a_strict_policy(
    page: httpx.AsyncClient,
) -> None:
    for path in ["/", *(f"/assets/{name}" for name in asset_names())]:
        answer = await page.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_every_file_that_the_page_names_is_there() -> None:
    page = read_asset("index.html")
    named = [f'href="/assets/{name}"' for name in asset_names() if name not in OTHERS]
    assert [name for name in named if name not in page] == []
    assert "<style" not in page and "onclick" not in page and "style=" not in page
    scripts = [read_asset(name) for name in asset_names() if name.endswith(".js")]
    for dangerous in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert all(dangerous not in script for script in scripts)


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../app.py",
        "/assets/..%2fapp.py",
        "/assets/%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/assets/__init__.py",
        "/assets//etc/passwd",
        "/api/episode/run/..%2f..%2f1.1",
        "/api/raw/run/config.yaml.1",
        "/api/run/..%2fother",
        "/api/group/run/nothing@1",
    ],
)
async def test_a_path_outside_the_run_is_refused(page: httpx.AsyncClient, path: str) -> None:
    assert (await page.get(path)).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
)
async def test_a_foreign_page_gets_nothing(
    page: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await page.get("/api/run/run", headers=headers)
    assert answer.status_code == 403
    assert "sum-1" not in answer.text


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:9"])
async def test_this_machines_names_are_served(page: httpx.AsyncClient, host: str) -> None:
    assert (await page.get("/api/runs", headers={"host": host})).status_code == 200


async def test_a_link_from_elsewhere_opens_the_page(page: httpx.AsyncClient) -> None:
    headers = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    assert (await page.get("/", headers=headers)).status_code == 200


async def test_nothing_can_be_sent(page: httpx.AsyncClient) -> None:
    assert (await page.post("/api/run/run")).status_code == 403


async def test_the_run_says_what_it_holds(page: httpx.AsyncClient) -> None:
    run = (await page.get("/api/run/run")).json()
    assert (run["episodes"], run["read"], run["total"], run["finished"]) == (26, 4, 4, False)
    assert run["flags"]["failed"] == 3
    assert [file["file"] for file in run["files"]] == ["eval-0", "1", "2", "3"]
    assert run["files"][1]["mean"] == pytest.approx((1 + 0 + 0.5 + 4) / 7)


async def test_a_list_comes_in_windows(page: httpx.AsyncClient) -> None:
    path = "/api/list/run?order=run&start=2&count=3&find=3.8"
    answer = (await page.get(path)).json()
    assert (answer["total"], answer["episodes"], len(answer["rows"])) == (1 + 2 + 3 * 11, 26, 3)
    assert answer["found"] == answer["total"] - 1
    assert (await page.get("/api/list/run?order=odd")).status_code == 400
    assert (await page.get("/api/list/run?start=x")).status_code == 400


async def test_an_episode_its_rows_and_its_group_are_told(page: httpx.AsyncClient) -> None:
    one = (await page.get("/api/episode/run/1.1")).json()
    assert "".join(one["streams"][0]["texts"]).startswith("3+4? <call>3+4=7\n")
    assert {wait["kind"] for wait in one["waits"]} == {"engine", "environment"}
    raw = (await page.get("/api/raw/run/1.1")).json()
    assert raw["rows"][0]["loss_mask"] == one["streams"][0]["mask"][5:]
    group = (await page.get(f"/api/group/run/{one['group_id']}")).json()
    assert [e["reward"] for e in group["episodes"]] == [1.0, 0.0, 0.5, None]
    assert group["episodes"][0]["spans"][1]["text"] == "=7\n"


async def test_curves_are_told_by_title(page: httpx.AsyncClient) -> None:
    charts = {c["title"]: c["lines"] for c in (await page.get("/api/charts/run")).json()["charts"]}
    assert list(charts["Reward"]) == ["reward/mean", "eval/reward/mean"]
    assert set(charts["Reward by component"]) == {"reward/exact", "reward/format"}
    assert charts["Failures, by boundary"]["rollout/failed/tool"]["values"] == [1, 1, 1]


async def test_numbers_that_json_lacks_are_null(tmp_path: Path) -> None:
    write_iteration(tmp_path, 1, [episode(turn("x"), task=HOSTILE)])
    path = tmp_path / "samples" / "1.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"level":1', b'"level":NaN'))
    app = make_app(ShownRuns([followed(tmp_path)]), title="t")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=LOCAL) as client:
        answer = await client.get("/api/episode/run/1.1")
    assert json.loads(answer.content)["metadata"] == {"level": None}
    assert answer.headers["content-type"] == "application/json"


async def test_ten_megabytes_reach_the_page_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    megabytes = "x" * 10_000_000
    failed = {"error": EpisodeError(Boundary.TOOL, megabytes), "task": megabytes}
    write_iteration(tmp_path, 1, [episode(turn("long " * 40), **failed)])
    monkeypatch.setattr("retrain.view.documents.MOST_TOKENS", 100)
    app = make_app(ShownRuns([followed(tmp_path)]), title="t")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=LOCAL) as client:
        listed = await client.get("/api/list/run")
        one = (await client.get("/api/episode/run/1.1")).json()
        raw = await client.get("/api/raw/run/1.1")
    assert len(listed.content) < 5000
    (stream,) = one["streams"]
    assert (len(stream["ids"]), len(stream["texts"]), stream["left_out"]) == (100, 100, 105)
    assert stream["spans"][-1]["end"] == 100
    assert raw.status_code == 404
    assert "samples/1.jsonl, line 1" in raw.json()["error"]


def test_following_tells_of_what_a_run_adds(tmp_path: Path) -> None:
    following = followed(write_run(tmp_path, iterations=1))
    before = following.stamp
    following.look()
    assert following.stamp == before
    write_iteration(tmp_path, 2, varied(7))
    following.look()
    assert following.stamp != before
    assert following.document()["episodes"] == 2 + 8 + 4
