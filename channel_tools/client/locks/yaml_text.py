"""YAML of foreign origin as plain data, and plain data as YAML."""

from __future__ import annotations

import io
import re
from typing import Any

from channel_tools.model.errors import LockError

_AMBIGUOUS = re.compile(r"[0-9.+~=<-]|(?:y|n|yes|no|on|off|true|false|null|nan|inf)$", re.IGNORECASE)


def load_mapping(text: str) -> dict[str, Any]:
    """The mapping that a text holds.

    :raises LockError: no YAML, or no mapping
    """
    from ruamel.yaml import YAML

    try:
        data = YAML(typ="safe").load(text)
    except Exception as error:  # the parser's own, and what numbers and dates raise
        raise LockError(
            "is no YAML", found=" ".join(str(error).split())[:300] or type(error).__name__
        ) from error
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise LockError("is no mapping of names", found=type(data).__name__)
    return data


def dump(data: Any) -> str:
    """The data as block YAML. A text that any YAML reader might take for a number or a truth is quoted."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import SafeRepresenter

    class Representer(SafeRepresenter):
        def text(self, value: str) -> Any:
            quoted = "'" if _AMBIGUOUS.match(value) else None
            return self.represent_scalar("tag:yaml.org,2002:str", value, style=quoted)

    Representer.add_representer(str, Representer.text)
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 1000
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()
