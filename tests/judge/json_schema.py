"""json_schema.py - checks a JSON document against the part of JSON Schema that the schemas of documents use.

Knows: type (also a list), properties, required, additionalProperties, items, enum, const, minimum, maximum,
exclusiveMinimum, minLength, minItems, pattern, anyOf, oneOf, allOf, not, if/then/else, $ref within the document.
An unknown keyword is an error, so that a schema cannot be believed to say more than is checked. Not a test itself.
"""
import re

NOTES = {"$schema", "$id", "$defs", "definitions", "title", "description", "$comment", "examples", "default", "format"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def of_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def errors(value, schema, root=None, where="$"):
    """List of sentences; empty when the document fits."""
    root = schema if root is None else root
    if schema is True or schema is False:
        return [] if schema else [where + ": not allowed"]
    out = []
    for key, arg in schema.items():
        if key in NOTES or key in ("then", "else"):
            continue
        check = CHECKS.get(key)
        if check is None:
            raise ValueError("the validator does not know the keyword " + key)
        out += check(value, arg, schema, root, where)
    return out


def check_type(v, arg, schema, root, where):
    names = arg if isinstance(arg, list) else [arg]
    return [] if any(of_type(v, n) for n in names) else ["%s: %r is not of type %s" % (where, v, arg)]


def check_properties(v, arg, schema, root, where):
    if not isinstance(v, dict):
        return []
    return [e for k, s in arg.items() if k in v for e in errors(v[k], s, root, where + "." + k)]


def check_required(v, arg, schema, root, where):
    return [where + ": lacks " + k for k in arg if k not in v] if isinstance(v, dict) else []


def check_additional(v, arg, schema, root, where):
    if not isinstance(v, dict):
        return []
    rest = [k for k in v if k not in schema.get("properties", {})]
    return [e for k in rest for e in errors(v[k], arg, root, where + "." + k)]


def check_items(v, arg, schema, root, where):
    if not isinstance(v, list):
        return []
    return [e for k, x in enumerate(v) for e in errors(x, arg, root, "%s[%d]" % (where, k))]


def check_ref(v, arg, schema, root, where):
    target = root
    for part in arg.lstrip("#/").split("/"):
        target = target[part]
    return errors(v, target, root, where)


def check_if(v, arg, schema, root, where):
    branch = "else" if errors(v, arg, root, where) else "then"
    return errors(v, schema.get(branch, True), root, where)


def count_of(v, arg, root, where):
    return sum(not errors(v, s, root, where) for s in arg)


def simple(test, text, kind):
    def check(v, arg, schema, root, where):
        return [] if not kind(v) or test(v, arg) else ["%s: %r %s %r" % (where, v, text, arg)]
    return check


def number(v):
    return of_type(v, "number")


CHECKS = {
    "type": check_type, "properties": check_properties, "required": check_required, "items": check_items,
    "additionalProperties": check_additional, "$ref": check_ref, "if": check_if,
    "enum": lambda v, arg, schema, root, where: [] if v in arg else ["%s: %r is not one of %r" % (where, v, arg)],
    "const": lambda v, arg, schema, root, where: [] if v == arg else ["%s: %r is not %r" % (where, v, arg)],
    "minimum": simple(lambda v, a: v >= a, "is less than", number),
    "maximum": simple(lambda v, a: v <= a, "is more than", number),
    "exclusiveMinimum": simple(lambda v, a: v > a, "is not more than", number),
    "minLength": simple(lambda v, a: len(v) >= a, "is shorter than", lambda v: isinstance(v, str)),
    "pattern": simple(lambda v, a: re.search(a, v), "does not match", lambda v: isinstance(v, str)),
    "minItems": simple(lambda v, a: len(v) >= a, "has fewer items than", lambda v: isinstance(v, list)),
    "maxItems": simple(lambda v, a: len(v) <= a, "has more items than", lambda v: isinstance(v, list)),
    "allOf": lambda v, arg, schema, root, where: [e for s in arg for e in errors(v, s, root, where)],
    "anyOf": lambda v, arg, schema, root, where:
        [] if count_of(v, arg, root, where) else [where + ": fits none of anyOf"],
    "oneOf": lambda v, arg, schema, root, where:
        [] if count_of(v, arg, root, where) == 1 else [where + ": does not fit exactly one of oneOf"],
    "not": lambda v, arg, schema, root, where:
        [] if errors(v, arg, root, where) else [where + ": fits what it must not"],
}
