"""What every section of the configuration has in common: closed, frozen, strictly typed."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model


class Section(BaseModel):
    """A section: an unknown key or a wrong type is an error, and values do not change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


S = TypeVar("S", bound=Section)


def partial(section: type[Section]) -> type[Section]:
    """The section with every key optional and none set: what changes some keys of it."""
    fields: dict[str, Any] = {
        name: (
            (Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation) | None,  # type: ignore[operator]
            Field(default=None, description=field.description),
        )
        for name, field in section.model_fields.items()
    }
    return create_model(
        section.__name__.replace("Settings", "Changes"), __base__=Section, __doc__=section.__doc__, **fields
    )


def changed(settings: S, changes: Section) -> S:
    """``settings`` with the keys that ``changes`` sets."""
    given = changes.model_dump(exclude_unset=True, exclude_none=True)
    return type(settings).model_validate({**settings.model_dump(), **given})


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
