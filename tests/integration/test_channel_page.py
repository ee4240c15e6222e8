"""The channel page in a real Chromium: contents, filters, without JavaScript, hostile names, size."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from channel_tools.channel.settings import Settings
from tests.integration.browser import Browser, chromium
from tests.integration.page_channel import PageChannel, large_channel, stack_channel

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = Path(os.environ.get("ROCM_CHANNEL_TEST_ARTIFACTS") or ROOT / ".cache" / "artifacts")
TAB, ENTER = "\ue004", "\ue007"
SETTLED = "return new Promise(done => setTimeout(done, 150))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def opened(browser: Browser, channel: PageChannel, folder: Path) -> bytes:
    content = channel.page()
    (folder / "index.html").write_bytes(content)
    browser.open(folder / "index.html")
    return content


def choose(browser: Browser, selector: str, text: str) -> None:
    browser.run(
        "const box = document.querySelector(arguments[0]);"
        "box.value = [...box.options].find(o => o.text === arguments[1]).value;"
        "box.dispatchEvent(new Event('input', {bubbles: true}));"
        "box.dispatchEvent(new Event('change', {bubbles: true}))",
        selector,
        text,
    )
    browser.run(SETTLED)


def test_page_shows_every_build_and_its_state(browser: Browser, tmp_path: Path) -> None:
    opened(browser, stack_channel(), tmp_path)
    browser.screenshot(ARTIFACTS / "channel-page.png", width=1280)
    browser.screenshot(ARTIFACTS / "channel-page-phone-dark.png", width=390, dark=True)
    assert browser.texts("h1") == ["internal"]
    columns = [" ".join(text.split()) for text in browser.texts("[aria-labelledby=gpu] thead th")]
    assert columns == ["Package", "gfx90a ROCm 7.2", "gfx942 ROCm 7.2", "gfx90a ROCm 7.0", "gfx942 ROCm 7.0"]
    rows = browser.texts("[aria-labelledby=gpu] tbody th")
    assert rows == ["pytorch-rocm", "rocm-canary", "vllm-rocm"]
    cells = browser.texts("[aria-labelledby=gpu] tbody:last-of-type td")
    assert cells[0].split("\n") == [
        "0.26.0",
        "Python 3.12 · build 0",
        "412 MB · 2026-11-27",
        "verified attested",
    ]
    assert "0.26.0 Python 3.12 build 1 yanked: Wrong attention kernel" in cells[1]
    assert "0.16.0" in cells[2]
    struck = browser.texts("[aria-labelledby=yanked] s")
    assert struck == ["linux-64/vllm-rocm-0.26.0-rocm72_gfx942_py312_h0000002_1.conda"]
    canary = browser.texts("[aria-labelledby=gpu] tbody:nth-of-type(2) td")
    assert "behind" in canary[0] and "not attested" in canary[0] and "behind" not in canary[1]
    assert browser.texts("[aria-labelledby=releases] tbody th") == ["2026.11-2", "2026.11-1", "2026.10-1"]
    assert "partial" in browser.texts("[aria-labelledby=releases] tbody")[0]
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [360, 768])
def test_page_is_no_wider_than_its_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    opened(browser, stack_channel(), tmp_path)
    browser.protocol(
        "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=2, mobile=True
    )
    try:
        assert browser.run("return document.documentElement.scrollWidth") <= width
    finally:
        browser.protocol("Emulation.clearDeviceMetricsOverride")


def test_filters_by_arch_release_and_name(browser: Browser, tmp_path: Path) -> None:
    channel = stack_channel()
    channel.add("linux-64", "only-mi200", "1.0", "rocm72_gfx90a_h0000009_0")
    opened(browser, channel, tmp_path)
    choose(browser, "#by-arch", "gfx942")
    columns = [" ".join(text.split()) for text in browser.texts("[aria-labelledby=gpu] thead th")]
    assert columns == ["Package", "gfx942 ROCm 7.2", "gfx942 ROCm 7.0"]
    assert "only-mi200" not in browser.texts(".matrix tbody th")
    assert "triton" in browser.texts(".matrix tbody th"), "packages for every GPU stay"
    choose(browser, "#by-release", "7.0")
    columns = [" ".join(text.split()) for text in browser.texts("[aria-labelledby=gpu] thead th")]
    assert columns == ["Package", "gfx942 ROCm 7.0"]
    browser.run("document.querySelector('#by-name').focus()")
    browser.press(*"vllm")
    browser.run(SETTLED)
    assert browser.texts(".matrix tbody th") == ["vllm-rocm"]
    assert browser.texts("#count") == ["1 of 6 packages"]
    browser.press(*"zz")
    browser.run(SETTLED)
    assert browser.texts("#nothing") == ["No package fits."]
    browser.click("#filter button")
    browser.run(SETTLED)
    assert len(browser.texts(".matrix tbody th")) == 6
    assert browser.complaints() == []


def test_chosen_commands_are_whole_and_can_be_copied(browser: Browser, tmp_path: Path) -> None:
    opened(browser, stack_channel(), tmp_path)
    choose(browser, "#machine", "gfx942, ROCm 7.0")
    choose(browser, "#wanted", "rocm-canary")
    url = "https://conda.example.com/internal"
    channels = f"-c {url}/label/gfx942-rocm7.0 -c {url} -c conda-forge"
    conda = f"create -n rocm --strict-channel-priority {channels} rocm-canary"
    assert browser.texts(".command code") == [
        f"conda {conda}",
        f"mamba {conda}",
        f"micromamba {conda}",
        f"pixi init --platform linux-64 {channels} rocm && cd rocm && pixi add rocm-canary",
        f"rocm-channel install --channel {url} -c conda-forge --arch gfx942 --rocm 7.0 --prefix ./rocm "
        "rocm-canary",
    ]
    browser.click(".machine[open]:not([hidden]) .command button")
    browser.run(SETTLED)
    assert browser.texts(".machine:not([hidden]) .command button")[0] == "Copied"
    choose(browser, "#machine", "GPU found by the client, ROCm 7.2")
    pixi = browser.texts(".command code")[1]
    assert f"-c {url}/label/rocm-7.2 -c {url} -c conda-forge" in pixi
    assert browser.complaints() == []


def test_channel_without_address_is_named_by_where_the_page_lies(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    opened(browser, stack_channel(url=None), folder)
    line = browser.texts(".command code")[-1]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    assert words[words.index("--channel") + 1] == folder.as_uri()


def test_keyboard_alone_reaches_everything(browser: Browser, tmp_path: Path) -> None:
    opened(browser, stack_channel(), tmp_path)
    reached = []
    for _ in range(60):
        browser.press(TAB)
        reached.append(
            browser.run("const n = document.activeElement; return n.id || n.className || n.tagName")
        )
    for wanted in ("away", "machine", "wanted", "by-name", "by-arch", "by-release", "scroll", "v", "BUTTON"):
        assert wanted in reached
    assert browser.run(
        "return [...document.querySelectorAll('input, select')].every(n => n.labels.length === 1)"
    )
    assert browser.run(
        "return [...document.querySelectorAll('th')].every(n => ['row', 'col'].includes(n.scope))"
    )
    browser.run("document.querySelector('details.more summary').focus()")
    browser.press(ENTER)
    assert browser.texts("details.more[open] li")


def test_everything_can_be_read_without_javascript(tmp_path: Path) -> None:
    with chromium(scripts=False) as browser:
        opened(browser, stack_channel(), tmp_path)
        browser.screenshot(ARTIFACTS / "channel-page-no-javascript.png", width=1280)
        body = browser.texts("body")[0]
        assert "js" not in browser.run("return document.documentElement.className")
        assert browser.texts("form") == [] and browser.texts("button") == []
        assert len(browser.texts(".matrix tbody th")) == 5
        assert "Wrong attention kernel" in body and "2026.10-1" in body
        summaries = browser.texts(".machine > summary")
        assert len(summaries) == 6 and summaries[0] == "gfx90a, ROCm 7.2"
        browser.click(".machine:nth-of-type(2) > summary")
        assert any("label/gfx942-rocm7.2" in text for text in browser.texts(".command code"))
        assert browser.complaints() == []


HOSTILE = (
    "<img src=x onerror=window.hacked=1>",
    '"><script>window.hacked=1</script>',
    "'onmouseover='window.hacked=1",
    "</title></style></script><script>window.hacked=1</script>",
    "{{ 7 * 7 }}${7*7}",
    "$(touch hacked)`touch hacked`;touch hacked",
    "left\u202egnp.exe\u2066\x1b[31m",
)


def test_hostile_names_and_reasons_stay_text(browser: Browser, tmp_path: Path) -> None:
    channel = PageChannel(
        Settings(
            url="javascript:window.hacked=1//" + HOSTILE[1], name=HOSTILE[3], dependency_channels=HOSTILE
        )
    )
    for number, text in enumerate(HOSTILE):
        channel.records.setdefault("linux-64", {})[f"{text}-1-0_{number}.conda"] = {
            "name": text,
            "version": text,
            "build": text,
            "build_number": text,
            "size": [text],
            "timestamp": {"a": text},
            "depends": [text, 7],
            "attestations_sha256": text,
        }
        channel.yanked.entries[f"linux-64/yanked-{number}-0_0.conda"] = {
            "reason": text,
            "who": text,
            "when": text,
            "record": {"name": text, "version": "2", "build": "rocm72_gfx942_h0000001_0"},
        }
    channel.add("linux-64", "amdgpu-arch", "9.4.2", "gfx942_detected_0")
    channel.add("linux-64", "rocm-userspace", HOSTILE[0], "system_detected_0")
    channel.add(f"label/gfx942-rocm{HOSTILE[0]}/linux-64", "amdgpu-arch", "9.4.2", "gfx942_declared_0")
    channel.add(f"label/gfx942-rocm{HOSTILE[0]}/linux-64", "rocm-userspace", HOSTILE[0], "system_declared_0")
    channel.add(f"label/{HOSTILE[1]}/linux-64", HOSTILE[1], HOSTILE[2], f"{HOSTILE[3]}_0")
    channel.release("r-1", ["linux-64/amdgpu-arch-9.4.2-gfx942_detected_0.conda"], who=HOSTILE[1])
    content = opened(browser, channel, tmp_path)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", content.decode())
    for name in browser.run("return [...document.querySelectorAll('#wanted option')].map(o => o.text)"):
        choose(browser, "#wanted", name)
    for number in range(browser.run("return document.querySelector('#machine').options.length")):
        browser.run("document.querySelector('#machine').selectedIndex = arguments[0]", number)
    assert browser.run("return window.hacked === undefined")
    assert (
        browser.run("return document.querySelectorAll('img, script:not(:last-of-type), iframe').length") == 0
    )
    here = tmp_path.resolve().as_uri()
    links = browser.run("return [...document.querySelectorAll('a')].map(a => a.href)")
    assert links and all(link.startswith(here) for link in links)
    assert set(HOSTILE[:6]) <= set(browser.texts("[aria-labelledby=yanked] td bdi"))
    assert browser.complaints() == []
    for line in browser.run("return [...document.querySelectorAll('.command code')].map(n => n.textContent)"):
        safe = line.replace("&& cd rocm && pixi", "")
        subprocess.run(
            ["bash", "-c", f"printf '%s\\n' {safe}"], cwd=tmp_path, capture_output=True, check=True
        )
    assert not (tmp_path / "hacked").exists()


def test_page_of_an_empty_channel(browser: Browser, tmp_path: Path) -> None:
    opened(browser, PageChannel(Settings()), tmp_path)
    assert browser.texts("main h2") == ["No packages yet"]
    assert browser.complaints() == []


@pytest.mark.parametrize(("names", "versions"), [(1500, 1), (100, 15)])
def test_page_of_a_large_channel_opens_fast(
    browser: Browser, tmp_path: Path, names: int, versions: int
) -> None:
    """3,000 builds: of many packages, or of some with many versions."""
    content = opened(browser, large_channel(names, versions), tmp_path)
    measured = browser.run(
        "const t = performance.getEntriesByType('navigation')[0];"
        "const begin = performance.now(); document.body.offsetHeight;"
        "const box = document.querySelector('#by-name'); box.value = '0042';"
        "document.querySelector('#filter').dispatchEvent(new Event('submit', {cancelable: true}));"
        "document.body.offsetHeight;"
        "return {interactive: t.domInteractive, ready: t.domContentLoadedEventEnd, loaded: t.loadEventEnd,"
        " filter: performance.now() - begin}"
    )
    milliseconds = {name: round(value) for name, value in measured.items()}
    print(
        f"{names} packages, {versions} versions: {len(content) / 1e6:.2f} MB, ms: {json.dumps(milliseconds)}"
    )
    assert browser.texts(".matrix tbody th") == ["package-0042"]
    assert len(content) < 2_500_000
    assert measured["ready"] < 4000 and measured["loaded"] < 6000 and measured["filter"] < 2000
    assert browser.complaints() == []


def test_colours_have_contrast() -> None:
    """WCAG AA for text, 4.5:1, in both schemes."""
    css = (ROOT / "channel_tools" / "channel" / "page" / "parts" / "page.css").read_text()
    schemes = [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", block))
        for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    ]
    assert len(schemes) == 2
    pairs = [(text, back) for text in ("text", "dim", "link", "bad") for back in ("back", "card", "soft")]
    pairs = [pair for pair in pairs if pair not in (("bad", "back"), ("bad", "soft"))]
    pairs += [("ok", "ok-back"), ("warn", "warn-back"), ("bad", "bad-back"), ("accent", "back")]
    for colours in schemes:
        for text, back in pairs:
            assert _contrast(colours[text], colours[back]) >= 4.5, (text, back, colours)


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
