#!/usr/bin/env python3
"""document_reference.py PROGRAM [FILE]: the reference of the members of all documents, in Markdown, from `help --schema` of the program.

With FILE (docs/documents.md): fails if the file says something else. To renew it: document_reference.py PROGRAM >docs/documents.md
"""
import json
import subprocess
import sys

HEAD = """# Members of the documents

Made by `scripts/document_reference.py` from the rows in `report/`: change those. `--json` prints a document, `vcompress help --schema report`
its JSON Schema, which is installed as `share/vcompress/report-1.schema.json`. The first member of every document is `schema`, `vcompress.report/1`. In the
place of a document that could not be made stands `{"schema": ..., "error": {"code": ..., "message": ...}}`.

`a[].b` is the member `b` of each item of the list `a`, `a{}.b` of each value of the map `a`, an object whose names are data. A member that may be absent is there
under a condition, or documents of the first version lack it. Names that end in `_bytes`, and members of `memory`, are bytes.
"""
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "object": "object", "array": "list"}


def run(program, *args):
    return subprocess.run([program, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def holds(schema):
    """What a value is, in words."""
    for key in "items", "additionalProperties":
        inner = schema.get(key, {})
        if inner and "properties" not in inner and "oneOf" not in inner:
            return "%s of %s" % ("list" if key == "items" else "map", holds(inner))
    if "enum" in schema:
        return ", ".join("null" if word is None else "`%s`" % word for word in schema["enum"])
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    return " or ".join(WORDS.get(t, t) for t in types) or "anything"


def members(schema, path):
    """Rows of the table, for an object."""
    for name, member in schema.get("properties", {}).items():
        if path or name != "schema":
            yield from member_rows(member, path + name, name in schema["required"])


def member_rows(member, path, always):
    sentence = member.get("description", "")
    yield "| `%s` | %s%s | %s |" % (path, holds(member), "" if always else "; may be absent", sentence.replace("|", "\\|"))
    for key, ending in (("items", "[]."), ("additionalProperties", "{}.")):
        inner = member.get(key, {})
        for each in inner.get("oneOf", [inner]):
            yield from members(each, path + ending)
    yield from members(member, path + ".")


def reference(program):
    names = run(program, "help", "--schema", "?").split(": ")[-1].strip().split(", ")
    for name in names:
        schema = json.loads(run(program, "help", "--schema", name))
        yield "\n## %s\n\n%s\n\n| member | holds | meaning |\n|---|---|---|" % (name, schema["description"].split(" New members")[0])
        yield from members(schema["$defs"]["answer"], "")


def main():
    text = HEAD + "\n".join(reference(sys.argv[1])) + "\n"
    if len(sys.argv) < 3:
        print(text, end="")
    elif open(sys.argv[2]).read() != text:
        sys.exit("%s is not what the rows say: scripts/document_reference.py %s >%s" % (sys.argv[2], sys.argv[1], sys.argv[2]))


main()
