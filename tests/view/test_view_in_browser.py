"""The page as people use it, in a real browser, against a server of its own process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from headless import Page, chromium, open_page
from small_png import png
from viewed_runs import HOSTILE, episode, turn, varied, write_iteration, write_run

from retrain.types import Segment
from retrain.view.runs import find_runs
from retrain.view.single_file import write_single_file

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(chromium() is None, reason="needs a browser: apt-get install chromium"),
]

LONG = 30_000
SAMPLES = "document.querySelectorAll('#list .sample').length"
COUNT = "document.getElementById('count').textContent"
SHOWN = "document.querySelector('#episode h2')?.textContent"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page() -> AsyncIterator[Page]:
    async with open_page() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_run(tmp_path_factory.mktemp("viewed") / "calculator")
    strange = episode(turn(HOSTILE, HOSTILE), turn(HOSTILE), task=HOSTILE, group=90)
    write_iteration(path, 4, [strange])
    long = episode(turn("word \n" * (LONG // 6)), task="long", group=91)
    write_iteration(path, 5, [long])
    return path


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[str]:
    arguments = ("-m", "retrain", "view", str(folder), "--json", "--no-browser")
    server = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    yield json.loads(await server.stdout.readline())["url"]
    server.terminate()
    await server.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(folder: Path) -> AsyncIterator[str]:
    async with served(folder) as address:
        yield address


async def opened(page: Page, url: str, view: str = "") -> Page:
    page.complaints.clear()
    await page.open(f"{url}#{view}")
    await page.until(f"{SAMPLES} > 0")
    return page


async def test_the_list_opens_and_an_episode_with_a_click(page: Page, url: str) -> None:
    await opened(page, url)
    assert await page.until(f"{COUNT} === '28 episodes'")
    await page.click('#list [data-id="5.1"]', until=f"{SHOWN} === 'long'")
    assert "sample=5.1" in await page.run("location.hash")
    assert page.complaints == []


async def test_chips_and_words_narrow_the_list(page: Page, url: str) -> None:
    await opened(page, url)
    chips = "[...document.querySelectorAll('.chips button')]"
    await page.until(f"{chips}.some(b => b.textContent === 'failed 3')")
    await page.run(f"{chips}.find(b => b.textContent === 'failed 3').click()")
    assert await page.until(f"{COUNT} === '3 episodes'")
    await page.run(f"{chips}.find(b => b.textContent === 'failed 3').click()")
    await page.press("/")
    for letter in "KEYERROR":
        await page.press(letter)
    assert await page.until("location.hash.includes('KEYERROR')")
    assert await page.until(f"{COUNT} === '3 episodes'")


async def test_the_pointer_tells_of_a_token(page: Page, url: str) -> None:
    await opened(page, url, "sample=1.1")
    told = await page.told_of('.t[data-at="6"]', "6 of segment 1")
    for part in ("99", "“c”", "1: trained on", "-0.601", "turn"):
        assert part in told
    await page.told_of('.t[data-at="0"]', "not sampled (prompt)")


async def test_colours_are_switched_by_keys_and_buttons(page: Page, url: str) -> None:
    await opened(page, url, "sample=1.1")
    await page.until("document.querySelectorAll('.t.trained').length")
    assert await page.run("document.querySelectorAll('.t.given').length") > 0
    await page.press("2")
    await page.until("document.querySelectorAll('.t.low-2').length")
    assert await page.run("document.querySelectorAll('.tokens .t.trained').length") == 0
    switched = "document.querySelectorAll('.tokens .t.kind-1').length > 0"
    await page.click('[data-value="weights"]', until=switched)
    await page.press("3")
    await page.until("document.querySelector('.tools').innerText.includes('did not record')")


async def test_a_link_leads_to_a_token_of_a_long_episode(page: Page, url: str) -> None:
    place = LONG - 20
    await opened(page, url, f"sample=5.1&token=0.{place}&colour=logprob")
    await page.until("document.querySelector('.t.pinned')")
    assert await page.run("document.querySelector('.t.pinned').dataset.at") == str(place)
    in_sight = "(b => b.top > 0 && b.bottom < innerHeight)"
    await page.until(f"{in_sight}(document.querySelector('.t.pinned').getBoundingClientRect())")
    made = await page.run("document.querySelectorAll('.tokens .t').length")
    assert made < LONG / 3, "only the chunks in sight have an element per token"
    await page.press("ArrowRight")
    await page.until(f"location.hash.includes('token=0.{place + 1}')")


async def test_an_address_that_is_pasted_is_followed(page: Page, url: str) -> None:
    await opened(page, url, "sample=1.1")
    await page.run("location.hash = 'sample=2.3&colour=logprob&run=nobody'")
    await page.until("document.querySelector('.facts-row')?.textContent.includes('2.3 ')")
    assert await page.run("document.querySelector('[data-value=logprob]').ariaPressed") == "true"
    await page.run("history.back()")
    await page.until("document.querySelector('.facts-row')?.textContent.includes('1.1 ')")
    assert page.complaints == []


async def test_going_back_brings_the_episode_into_sight(page: Page, url: str) -> None:
    await opened(page, url, "sample=5.1")
    chosen = "document.querySelector('[aria-selected=true]')?.dataset.id"
    await page.until(f"{chosen} === '5.1'")
    await page.run("history.pushState(null, '', '#sample=eval-0.2')")
    await page.run("history.pushState(null, '', '#sample=1.1'); history.back()")
    await page.until(f"{chosen} === 'eval-0.2'")
    await page.press("k")
    await page.until("location.hash.includes('sample=eval-0.1')")
    assert page.complaints == []


async def test_an_address_of_names_that_objects_have_does_no_harm(page: Page, url: str) -> None:
    await opened(page, url, "sample=1.1&colour=__proto__&pane=constructor&view=toString")
    await page.until("document.querySelectorAll('.t.trained').length")
    await page.run("location.hash = 'sample=__proto__'")
    await page.until("document.querySelector('#episode [role=alert]')?.innerText.includes('FILE')")
    await page.open(f"{url}#flags=nothing")
    await page.until("document.querySelector('#list .nothing')?.innerText.includes('nothing')")


async def test_a_button_keeps_the_focus_when_it_is_drawn_anew(page: Page, url: str) -> None:
    await opened(page, url, "sample=1.1")
    for name in ("failed", "curves"):
        button = f"document.querySelector('[data-value={name}]')"
        await page.until(f"!!{button}")
        await page.run(f"{button}.focus(), {button}.click()")
        await page.until(f"{button}.ariaPressed === 'true'")
        assert await page.run("document.activeElement.dataset.value") == name


async def test_a_page_that_is_not_seen_keeps_no_connection(page: Page, url: str) -> None:
    await opened(page, url, "sample=1.1")
    await page.run("EventSource.prototype.close = () => { window.ended = true; }")
    await page.run("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    await page.run("document.dispatchEvent(new Event('visibilitychange'))")
    assert await page.run("window.ended")


async def test_a_file_that_is_gone_is_told_of_where_its_rows_were_asked_for(
    page: Page, url: str, folder: Path
) -> None:
    await opened(page, url, "sample=2.1")
    await page.until(f"{SHOWN} === 'sum-1'")
    path, aside = folder / "samples" / "2.jsonl", folder / "aside"
    path.rename(aside)  # as a resume does it
    await page.until(f"{COUNT} === '20 episodes'")
    await page.press("r")
    await page.until("document.querySelector('.body [role=alert]')?.innerText.includes('2.1')")
    assert await page.run(SHOWN) == "sum-1"
    aside.rename(path)
    await page.until(f"{COUNT} === '28 episodes'")


async def test_the_keys_walk_through_the_list(page: Page, url: str) -> None:
    await opened(page, url, "file=1&order=run")
    await page.until(f"{COUNT} === '8 episodes'")
    for key, id in [("j", "1.1"), ("j", "1.2"), ("ArrowDown", "1.3"), ("k", "1.2")]:
        await page.press(key)
        await page.until(f"location.hash.includes('sample={id}')")
        await page.until(f"document.querySelector('[aria-selected=true]').dataset.id === '{id}'")
    await page.press("g")
    await page.until("document.querySelectorAll('.side-by-side article').length === 4")
    await page.press("r")
    await page.until("document.querySelector('.body .json')?.innerText.includes('loss_mask')")
    await page.press("?")
    assert await page.until("document.querySelector('dialog').open")


async def test_hostile_text_is_shown_and_does_nothing(page: Page, url: str) -> None:
    await opened(page, url, "sample=4.1")
    text = await page.until("document.querySelector('#episode .block.model')?.innerText")
    for part in ("</script><script>", "<img src=x", "\\x1b[31m", "\\u202e", "\\x00", "\\U000e0041"):
        assert part in text
    for pane in ("group", "raw"):
        await page.run(f"document.querySelector('[data-value={pane}]').click()")
        await page.until("document.querySelector('.body').innerText.includes('<img src=x')")
    assert await page.run("typeof window.stolen") == "undefined"
    assert await page.run("document.querySelectorAll('#samples img, #samples script').length") == 0
    assert page.complaints == []


async def test_a_single_file_shows_the_same_from_disk(page: Page, folder: Path) -> None:
    path = folder.parent / "calculator.html"
    write_single_file(path, find_runs(folder), title="calculator", most=256)
    await opened(page, path.as_uri(), "sample=4.1")
    await page.until("document.querySelectorAll('.t.trained').length")
    assert await page.run("typeof window.stolen") == "undefined"
    await page.press("/")
    for letter in "no idea":
        await page.press(letter)
    assert await page.until(f"{COUNT} === '4 episodes'")
    await page.press("Escape")
    await page.press("v")
    assert await page.until("document.querySelectorAll('.chart path').length")
    assert page.complaints == []


async def test_the_images_of_an_episode_are_drawn(page: Page, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    cat = tmp_path / "run" / "cat.png"
    cat.write_bytes(png(200))
    images = (str(cat), "https://example.org/dog.png")
    shown = episode(segments=(Segment(tuple(b"look "), (turn("a cat"),), images),))
    write_iteration(tmp_path / "run", 1, [shown])
    path = tmp_path / "run.html"
    write_single_file(path, find_runs(tmp_path / "run"), title="cats", most=9)
    await opened(page, path.as_uri(), "sample=1.1")
    gallery = "document.querySelector('.gallery')"
    assert await page.until(f"{gallery}?.querySelector('img')?.naturalWidth") == 8
    assert "dog.png is not fetched" in await page.run(f"{gallery}.innerText")
    pressed = f"{gallery}.querySelector('button').ariaPressed === 'true'"
    await page.click(".gallery button", until=pressed)
    assert page.complaints == []


async def test_the_page_follows_a_run_that_goes_on(page: Page, url: str, folder: Path) -> None:
    await opened(page, url, "sample=1.1")
    await page.until(f"{COUNT} === '28 episodes'")
    write_iteration(folder, 6, varied(92, task="fresh"))
    await page.until(f"{COUNT} === '32 episodes'")
    await page.run("document.querySelector('#list').scrollTop = 0")
    assert await page.until("document.querySelector('#list').innerText.includes('Iteration 6')")
    assert await page.run(SHOWN) == "sum-1", "the open episode stays"
    await page.press("v")
    await page.until("document.querySelectorAll('.chart').length > 5")
    last = "document.querySelector('[data-title=Reward] path').getAttribute('d').split('L').length"
    points = await page.run(last)
    write_iteration(folder, 7, varied(93, task="fresh"))
    await page.until(f"{last} === {points + 1}")
    assert page.complaints == []


async def test_a_stage_that_begins_while_the_page_is_open_appears(
    page: Page, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("stages: []\n")
    async with served(tmp_path) as address:
        page.complaints.clear()
        await page.open(address)
        await page.until("document.querySelector('#bar .live')")
        write_iteration(tmp_path / "stages" / "sft", 1, varied(0, task="first"))
        await page.until(f"{COUNT} === '4 episodes'")
        await page.press("j")
        await page.until(f"{SHOWN} === 'first'")
        write_iteration(tmp_path / "stages" / "grpo", 1, varied(1), varied(2))
        await page.until("document.querySelector('[data-value=grpo]')")
        assert await page.run("document.querySelector('[data-value=sft]').ariaPressed") == "true"
        assert await page.run(SHOWN) == "first", "what is shown stays"
        await page.click("[data-value=grpo]", until=f"{COUNT} === '8 episodes'")
        assert page.complaints == []
