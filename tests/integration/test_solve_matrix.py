"""Right build or refusal, and one arch always: every machine, declaration, priority and client."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integration.solve_cases import ISA, SCENES, STACKS, Answer, Case, cases, solve_all

Answers = dict[Case, Answer]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return solve_all(tmp_path_factory.mktemp("matrix"), cases())


def wrong(case: Case, answer: Answer) -> str | None:
    """What is wrong with an answer; None when it is right."""
    scene, arch = case.scene, case.wanted_arch
    if scene.title.startswith("pin") and arch != "gfx90a":
        arch = None
    if "=99.0" in scene.specs[0]:
        arch = None
    if arch is None:
        return None if answer.refused else f"wanted a refusal, got {answer.short}"
    if answer.refused:
        return f"wanted {arch}, was refused: {answer.text}"
    if answer.archs != {arch}:
        return f"wanted {arch}, got {answer.short}"
    if answer.foreign:
        return f"not ours: {answer.foreign}"
    vllm, torch, _ = STACKS["7.2"]
    if arch in scene.newer_for:
        vllm = "0.27.0"
    if answer.records["vllm-rocm"][0] != vllm or answer.records["pytorch-rocm"][0] != torch:
        return f"another version: {answer.records}"
    number = "_1" if arch in scene.rebuilt_for else "_0"
    if not answer.records["vllm-rocm"][1].endswith(number):
        return f"another build number: {answer.records['vllm-rocm']}"
    if answer.records["amdgpu-arch"][0] != ISA[arch]:
        return f"another amdgpu-arch: {answer.records['amdgpu-arch']}"
    return None


def known_fault(case: Case) -> bool:
    """Where a plain client may get what it should not, as docs/install.md says; `rocm-channel` never does."""
    return case.way == "plain client" and bool(faults_of(case))


def faults_of(case: Case) -> list[str]:
    """What can go wrong for a plain client."""
    here, declared = case.detected in ISA, case.declared in ISA
    flexible = case.priority == "flexible"
    found = []
    if flexible and here and declared and case.detected != case.declared:
        found.append("flexible: the GPU of the host overrules the label")
    if flexible and not declared and not here:
        found.append("flexible: a package under our name from another channel, where ours refuses")
    if "=99.0" in case.scene.specs[0]:
        found.append("a version that only another channel has is taken from there")
    if case.scene.title.startswith("pin") and (case.detected, case.declared) == ("gfx90a", "gfx942"):
        found.append("a pin against the label wins, where the host has that GPU")
    return found


def test_every_case_is_there(answers: Answers) -> None:
    assert len(answers) == len(SCENES) * 4 * 3 * 2 * 2
    assert Counter(case.way for case in answers) == {"rocm-channel": 144, "plain client": 144}


def test_our_client_gives_the_right_build_or_refuses(answers: Answers) -> None:
    faults = {case: fault for case, answer in answers.items() if (fault := wrong(case, answer))}
    assert {case: fault for case, fault in faults.items() if case.way == "rocm-channel"} == {}


def test_a_plain_client_is_wrong_only_where_the_docs_say(answers: Answers) -> None:
    faults = {case: fault for case, answer in answers.items() if (fault := wrong(case, answer))}
    assert {case: fault for case, fault in faults.items() if not known_fault(case)} == {}
    seen = Counter(fault for case in faults for fault in faults_of(case))
    assert len(seen) == 4, "each fault that the docs describe is there; if not, they can say less"


def test_strict_priority_and_no_named_version_is_always_right(answers: Answers) -> None:
    """What `rocm-channel configure` writes and the channel page shows."""
    asked = [
        case
        for case in answers
        if case.priority == "strict" and not case.scene.title.startswith(("pin", "a version"))
    ]
    assert len(asked) == 4 * 4 * 3 * 2
    assert [case for case in asked if wrong(case, answers[case])] == []


def test_refusals_say_what_to_do(answers: Answers) -> None:
    foreign = [
        answer.text
        for case, answer in answers.items()
        if case.way == "rocm-channel" and answer.refused == "40, after the solve"
    ]
    assert foreign and all("vllm-rocm 99.0" in text and "of this channel" in text for text in foreign)


def test_no_environment_ever_mixes_archs(answers: Answers) -> None:
    mixed = [case for case, answer in answers.items() if len(answer.archs) > 1]
    assert mixed == []
