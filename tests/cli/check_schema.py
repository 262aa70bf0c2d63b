"""check_schema.py SCHEMA DOCUMENT - checks a JSON document with the keywords of JSON Schema that our schemas use.

An unknown keyword is an error, so that a schema cannot ask for something that nobody checks. Also refuses repeated keys.
"""

import json
import re
import sys

TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}
SILENT = {"$schema", "$id", "$defs", "title", "description"}


def no_twins(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key occurs twice: %s" % keys)
    return dict(pairs)


def is_number(value):
    return TYPES["number"](value)


def findings(schema, value, root, path):
    for key, want in schema.items():
        if key in SILENT:
            continue
        if key == "$ref":
            target = root
            for part in want.lstrip("#/").split("/"):
                target = target[part]
            yield from findings(target, value, root, path)
        elif key == "type":
            names = want if isinstance(want, list) else [want]
            if not any(TYPES[name](value) for name in names):
                yield "%s: %r is no %s" % (path, value, " or ".join(names))
        elif key == "const":
            if value != want:
                yield "%s: %r is not %r" % (path, value, want)
        elif key == "enum":
            if value not in want:
                yield "%s: %r is none of %r" % (path, value, want)
        elif key == "required":
            for name in want if isinstance(value, dict) else []:
                if name not in value:
                    yield "%s: %s is missing" % (path, name)
        elif key == "properties":
            for name, inner in want.items() if isinstance(value, dict) else []:
                if name in value:
                    yield from findings(inner, value[name], root, path + "." + name)
            for name in value if isinstance(value, dict) else []:
                if name not in want:
                    yield "%s: %s is not in the schema" % (path, name)
        elif key == "items":
            for i, item in enumerate(value if isinstance(value, list) else []):
                yield from findings(want, item, root, "%s[%d]" % (path, i))
        elif key == "oneOf":
            each = [list(findings(inner, value, root, path)) for inner in want]
            if sum(not found for found in each) != 1:
                yield "%s: fits %d of the alternatives: %s" % (path, sum(not found for found in each), min(each, key=len))
        elif key == "minimum":
            if is_number(value) and value < want:
                yield "%s: %r is below %r" % (path, value, want)
        elif key == "maximum":
            if is_number(value) and value > want:
                yield "%s: %r is above %r" % (path, value, want)
        elif key == "additionalProperties":
            for name in value if isinstance(value, dict) else []:
                if name not in schema.get("properties", {}):
                    yield from findings(want, value[name], root, path + "." + name)
        elif key == "pattern":
            if isinstance(value, str) and not re.search(want, value):
                yield "%s: %r does not match %r" % (path, value, want)
        elif key == "minLength":
            if isinstance(value, str) and len(value) < want:
                yield "%s: %r is too short" % (path, value)
        elif key == "maxItems":
            if isinstance(value, list) and len(value) > want:
                yield "%s: more than %d items" % (path, want)
        else:
            raise ValueError("the schema uses %s, which is not checked here" % key)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        schema = json.load(f)
    with open(sys.argv[2], encoding="utf-8") as f:
        document = json.load(f, object_pairs_hook=no_twins)
    found = list(findings(schema, document, schema, "$"))
    print("\n".join(found[:20]))
    sys.exit(1 if found else 0)


main()
