"""Writes docs/openapi.yaml as Markdown: openapi_page.py FILE. Needs PyYAML."""

import json
import sys

import yaml

METHODS = ("get", "post", "put", "delete")


class Page:
    def __init__(self, file):
        with open(file, encoding="utf-8") as text:
            self.api = yaml.safe_load(text)

    def resolved(self, value):
        """What a `$ref` names, and its last name."""
        if "$ref" not in value:
            return value, None
        found = self.api
        path = value["$ref"].removeprefix("#/").split("/")
        for name in path:
            found = found[name]
        return found, path[-1]

    def type(self, schema):
        """A schema in a few words, with a link to one that has a name."""
        _, name = self.resolved(schema)
        if name:
            return f"[{name}](#{name.lower()})"
        for words, parts in ((" or ", schema.get("anyOf")), (" or ", schema.get("oneOf"))):
            if parts:
                return words.join(self.type(part) for part in parts)
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        if "enum" in schema:
            return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
        kinds = schema.get("type", "any")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        said = " or ".join(kinds)
        if kinds == ["array"] and "items" in schema:
            said = f"array of {self.type(schema['items'])}"
        low = schema.get("minimum", schema.get("minItems"))
        high = schema.get("maximum", schema.get("maxItems"))
        if low is not None and high is not None:
            said += f", {low} to {high}"
        elif low is not None:
            said += f", from {low}"
        elif high is not None:
            said += f", up to {high}"
        if "default" in schema:
            said += f", default `{json.dumps(schema['default'])}`"
        return said

    def members(self, schema, path=""):
        """Rows of a table: every member, nested ones with their path."""
        for name, member in schema.get("properties", {}).items():
            is_required = name in schema.get("required", ())
            about = member.get("description", "") if "$ref" not in member else ""
            yield f"| `{path}{name}` | {self.type(member)} | {'' if is_required else 'optional'} | {cell(about)} |"
            yield from self.nested(member, f"{path}{name}")

    def nested(self, schema, path):
        if "$ref" in schema:
            return
        for part in schema.get("anyOf", []) + schema.get("oneOf", []):
            yield from self.nested(part, path)
        if "properties" in schema:
            yield from self.members(schema, path + ".")
        if isinstance(schema.get("items"), dict):
            yield from self.nested(schema["items"], path + "[]")
        if isinstance(schema.get("additionalProperties"), dict):
            yield from self.nested(schema["additionalProperties"], path + ".*")

    def table(self, schema):
        rows = list(self.members(schema))
        return ["| member | type | | |", "|---|---|---|---|", *rows, ""] if rows else []

    def content(self, content):
        for kind, media in (content or {}).items():
            schema = media.get("schema", {})
            yield f"`{kind}`: {self.type(schema)}" if schema else f"`{kind}`"
            yield ""
            if "$ref" not in schema:
                yield from self.table(schema)
            if "example" in media:
                yield from ["```json", json.dumps(media["example"], indent=2, ensure_ascii=False), "```", ""]

    def operation(self, path, method, shared, operation):
        yield from [f"### {method.upper()} {path}", "", operation["summary"] + ".", ""]
        parameters = [self.resolved(each)[0] for each in shared + operation.get("parameters", [])]
        if parameters:
            yield from ["| parameter | in | type | |", "|---|---|---|---|"]
            for each in parameters:
                schema = each.get("schema") or each["content"]["application/json"]["schema"]
                about = cell(each.get("description", ""))
                yield f"| `{each['name']}` | {each['in']} | {self.type(schema)} | {about} |"
            yield ""
        if "requestBody" in operation:
            body = operation["requestBody"]
            need = "required" if body.get("required") else "optional"
            yield from [f"**Body**, {need}. {body.get('description', '')}", ""]
            yield from self.content(body["content"])
        errors = []
        for status, answer in operation["responses"].items():
            answer, name = self.resolved(answer)
            if name == "Error":
                errors.append("other" if status == "default" else status)
                continue
            yield from [f"**{status}**: {answer['description'].strip()}", ""]
            yield from self.content(answer.get("content"))
        if errors:
            yield from [f"**{', '.join(errors)}**: [an error](#error)", ""]

    def lines(self):
        info = self.api["info"]
        yield from ["# The API", "", info["description"], ""]
        yield from ["This page is made from [openapi.yaml](openapi.yaml).", ""]
        for tag in self.api["tags"]:
            yield from [f"## {tag['description']}", ""]
            for path, item in self.api["paths"].items():
                for method in METHODS:
                    operation = item.get(method)
                    if operation and tag["name"] in operation["tags"]:
                        yield from self.operation(path, method, item.get("parameters", []), operation)
        yield from ["## Schemas", ""]
        for name, schema in self.api["components"]["schemas"].items():
            about = schema.get("description", "")
            yield from [f"### {name}", ""]
            if "properties" not in schema:
                yield from [self.type(schema), ""]
            yield from [about, "", *self.table(schema)]
            if name == "Error":
                yield from [self.api["components"]["responses"]["Error"]["description"], ""]


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print("\n".join(Page(sys.argv[1]).lines()))
