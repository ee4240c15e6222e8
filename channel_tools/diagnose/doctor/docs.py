"""All checks in docs/doctor.md: ``python -m channel_tools.diagnose.doctor.docs`` prints it."""

from __future__ import annotations

from channel_tools.diagnose.doctor.data import check_texts


def table() -> str:
    """One row a check: id, what it looks at and wants, and what goes wrong otherwise."""
    parts = []
    for scope, title in (("build", "To build"), ("use", "To use")):
        parts += [f"## {title}", "", "| check | looks at | wanted | otherwise |", "| --- | --- | --- | --- |"]
        for identity, about in check_texts().items():
            if about.scope == scope:
                cells = (f"`{identity}`", about.title, about.wanted, about.why)
                parts.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
        parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(table())
