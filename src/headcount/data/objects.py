"""Turns Python objects into Arrow columns, each object without regard to the others.

Arrow gives a column the type of its first objects, and then reads all others as this type. So one
person's date could change everybody else's times.
"""

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow


def of_objects(objects: list[Any]) -> "pyarrow.Array":
    """A column of these objects. A date becomes the time at the beginning of its day. A time with
    a zone becomes the local time in this zone. Decimals become whole numbers or floats.
    """
    import pyarrow

    kinds = {*map(type, objects)}
    if any(issubclass(kind, date | np.datetime64) for kind in kinds):
        objects = [_local_time(one) for one in objects]
    elif any(issubclass(kind, np.generic) for kind in kinds):
        return of_objects([one.item() if isinstance(one, np.generic) else one for one in objects])
    elif any(issubclass(kind, Decimal) for kind in kinds):
        objects = [_number(one) if isinstance(one, Decimal) else one for one in objects]
    return pyarrow.array(objects)


def may_convert(one: "pyarrow.DataType", other: "pyarrow.DataType") -> bool:
    """Whether Arrow may convert a column from one of these types to the other. Conversions between
    other kinds of types may change values.
    """
    from pyarrow import types

    if types.is_timestamp(one) and types.is_timestamp(other):
        return bool(one.tz == other.tz)
    kinds = (
        (types.is_integer, types.is_floating),
        (types.is_string, types.is_large_string, types.is_string_view),
        (types.is_decimal,),
        (types.is_list, types.is_large_list),
    )
    return one == other or any(
        any(test(one) for test in tests) and any(test(other) for test in tests) for tests in kinds
    )


def _local_time(one: Any) -> Any:
    """A date or time as a time without a zone. NaN and NaT become None."""
    if isinstance(one, np.datetime64):
        one = one.astype("datetime64[us]").item()
    if isinstance(one, float) and math.isnan(one):
        return None
    if isinstance(one, datetime):
        try:
            return datetime(*one.timetuple()[:6], one.microsecond)
        except ValueError:  # NaT of pandas
            return None
    return datetime.combine(one, time()) if isinstance(one, date) else one


def _number(one: Decimal) -> int | float:
    if one.is_finite() and one == one.to_integral_value() and abs(one) < 2**63:
        return int(one)
    return float(one)
