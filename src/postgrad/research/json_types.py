"""Results as JSON types, for other programs."""

import dataclasses
import math
from datetime import datetime
from typing import Any

import numpy as np


def as_json_types(value: Any) -> Any:
    """Nested dataclasses, Modules and arrays as JSON types; NaN and infinities become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_json_types(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): as_json_types(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_types(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool | str | int) or value is None:
        return value
    numbers = np.asarray(value)
    return np.where(np.isfinite(numbers), numbers, np.asarray(None)).tolist()
