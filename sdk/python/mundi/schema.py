"""JSON Schema, as far as mundi.json uses it. A keyword that is not known here is an error, not a silent yes."""

import re
from typing import Any, Callable

# Say something for people, or name something: nothing is checked.
_NOTES = {
    "$schema", "$id", "$defs", "$comment", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "then", "else",
}  # fmt: skip

# Deep enough for any schema that a person writes; a reference to itself ends here.
_DEPTH_MAX = 128


def is_valid(schema: Any, value: Any) -> bool:
    return _holds(schema, value, schema, _DEPTH_MAX)


def _holds(schema: Any, value: Any, root: Any, depth: int) -> bool:
    if depth == 0:
        raise ValueError("the schema is nested too deeply")
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        raise ValueError("a schema is an object, `true` or `false`")

    def below(part: Any, of: Any) -> bool:
        return _holds(part, of, root, depth - 1)

    return all(_keyword(schema, keyword, says, value, root, below) for keyword, says in schema.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
    "multipleOf": lambda value, bound: (value / bound) == int(value / bound),
}

# What has a length, which lengths are meant, and whether it is the least.
_LENGTHS = {
    "minLength": (str, True),
    "maxLength": (str, False),
    "minItems": (list, True),
    "maxItems": (list, False),
    "minProperties": (dict, True),
    "maxProperties": (dict, False),
}


def _keyword(schema: dict, keyword: str, says: Any, value: Any, root: Any, below: Callable[[Any, Any], bool]) -> bool:
    if keyword in _NOTES:
        return True
    if keyword in _BOUNDS:
        return not _is_number(value) or _BOUNDS[keyword](value, says)
    if keyword in _LENGTHS:
        kind, least = _LENGTHS[keyword]
        return not isinstance(value, kind) or (len(value) >= says if least else len(value) <= says)
    if keyword == "type":
        return any(_TYPES[name](value) for name in ([says] if isinstance(says, str) else says))
    if keyword == "enum":
        return any(_equal(choice, value) for choice in says)
    if keyword == "const":
        return _equal(says, value)
    if keyword == "allOf":
        return all(below(part, value) for part in says)
    if keyword == "anyOf":
        return any(below(part, value) for part in says)
    if keyword == "oneOf":
        return sum(below(part, value) for part in says) == 1
    if keyword == "not":
        return not below(says, value)
    if keyword == "if":
        return below(schema.get("then" if below(says, value) else "else", True), value)
    if keyword == "$ref":
        return below(_pointed(root, says), value)
    if keyword == "pattern":
        return not isinstance(value, str) or re.search(says, value) is not None
    if keyword in _OF_OBJECTS:
        return not isinstance(value, dict) or _OF_OBJECTS[keyword](schema, says, value, below)
    if keyword in _OF_ARRAYS:
        return not isinstance(value, list) or _OF_ARRAYS[keyword](schema, says, value, below)
    raise ValueError(f"the test world does not know the keyword `{keyword}` of JSON Schema")


def _is_known(schema: dict, name: str) -> bool:
    patterns = schema.get("patternProperties", {})
    return name in schema.get("properties", {}) or any(re.search(pattern, name) for pattern in patterns)


_OF_OBJECTS: dict[str, Callable[..., bool]] = {
    "required": lambda schema, says, value, below: all(name in value for name in says),
    "dependentRequired": lambda schema, says, value, below: all(
        need in value for name, needs in says.items() if name in value for need in needs
    ),
    "properties": lambda schema, says, value, below: all(
        below(part, value[name]) for name, part in says.items() if name in value
    ),
    "patternProperties": lambda schema, says, value, below: all(
        below(part, item) for pattern, part in says.items() for name, item in value.items() if re.search(pattern, name)
    ),
    "additionalProperties": lambda schema, says, value, below: all(
        below(says, item) for name, item in value.items() if not _is_known(schema, name)
    ),
    "propertyNames": lambda schema, says, value, below: all(below(says, name) for name in value),
}

_OF_ARRAYS: dict[str, Callable[..., bool]] = {
    "prefixItems": lambda schema, says, value, below: all(below(part, item) for part, item in zip(says, value)),
    "items": lambda schema, says, value, below: all(
        below(says, item) for item in value[len(schema.get("prefixItems", [])) :]
    ),
    "contains": lambda schema, says, value, below: any(below(says, item) for item in value),
    "uniqueItems": lambda schema, says, value, below: not says
    or not any(_equal(item, earlier) for at, item in enumerate(value) for earlier in value[:at]),
}


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    return left == right


def _pointed(root: Any, reference: str) -> Any:
    at = root
    for part in reference.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, dict) or part not in at:
            raise ValueError(f"the reference `{reference}` leads nowhere")
        at = at[part]
    return at
