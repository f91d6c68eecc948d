"""The JSON schema of a configuration file, for editors; written to workflow/schemas/."""

from __future__ import annotations

import json
from typing import Any

from wmlab.config.root import StudyConfig


def config_schema() -> dict[str, Any]:
    """JSON schema of config.yaml and of overlays: no key is required, since an overlay holds a part."""
    schema = StudyConfig.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_optional(schema)}


def schema_text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _optional(node: Any) -> Any:
    """Drop every list of required keys."""
    if isinstance(node, dict):
        return {
            key: _optional(value)
            for key, value in node.items()
            if not (key == "required" and isinstance(value, list))
        }
    return [_optional(item) for item in node] if isinstance(node, list) else node


if __name__ == "__main__":
    print(schema_text(), end="")
