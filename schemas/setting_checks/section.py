"""What all tables of ``walbridge.toml`` have in common.

In: values as they stand in the file. Out: a frozen section, or pydantic's errors, which name the setting.
"""

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A table: of settings that are known, each of its type."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_is_a_switch(cls, value: object, info: ValidationInfo) -> object:
        """``true`` is refused for a number: pydantic would take it as 1."""
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation in (int, int | None):
            raise PydanticCustomError("int_type", "not a number")
        return value
