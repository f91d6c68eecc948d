"""What every section of the configuration has in common: closed, frozen, strictly typed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """A section: an unknown key or a wrong type is an error, and values do not change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _number(value: Any) -> Any:
    """Read ``1e-3``, which YAML 1.1 takes for a string, as the number it is."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


Real = Annotated[float, BeforeValidator(_number)]
Positive = Annotated[Real, Field(gt=0)]
NonNegative = Annotated[Real, Field(ge=0)]
Share = Annotated[Real, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Name = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="letters, digits, '-', '_', '.'")
]
