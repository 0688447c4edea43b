/** JSON Schema, as far as mundi.json uses it. A keyword that is not known here is an error, not a silent yes. */

/** Say something for people, or name something: nothing is checked. */
const NOTES = new Set([
  "$schema", "$id", "$defs", "$comment", "definitions", "title", "description", "default", "examples", "deprecated",
  "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "then", "else",
]);

/** Deep enough for any schema that a person writes; a reference to itself ends here. */
const DEPTH_MAX = 128;

export function isValid(schema: unknown, value: unknown): boolean {
  return holds(schema, value, schema, DEPTH_MAX);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isNumber = (value: unknown): value is number | bigint => typeof value === "number" || typeof value === "bigint";
const has = (entries: object, name: string) => Object.prototype.hasOwnProperty.call(entries, name);

function holds(schema: unknown, value: unknown, root: unknown, depth: number): boolean {
  if (depth === 0) throw new Error("the schema is nested too deeply");
  if (typeof schema === "boolean") return schema;
  if (!isObject(schema)) throw new Error("a schema is an object, `true` or `false`");
  const below = (part: unknown, of: unknown) => holds(part, of, root, depth - 1);
  return Object.entries(schema).every(([keyword, says]) => keywordHolds(schema, keyword, says as any, value, root, below));
}

type Below = (schema: unknown, value: unknown) => boolean;

function keywordHolds(all: any, keyword: string, says: any, value: any, root: unknown, below: Below): boolean {
  const length = typeof value === "string" ? [...value].length : undefined;
  const items = Array.isArray(value) ? value : undefined;
  const entries = isObject(value) ? value : undefined;
  const size = entries && Object.keys(entries).length;
  switch (keyword) {
    case "type":
      return [says].flat().some((name: string) => isOf(name, value));
    case "enum":
      return says.some((choice: unknown) => equal(choice, value));
    case "const":
      return equal(says, value);
    case "minimum":
      return !isNumber(value) || value >= says;
    case "maximum":
      return !isNumber(value) || value <= says;
    case "exclusiveMinimum":
      return !isNumber(value) || value > says;
    case "exclusiveMaximum":
      return !isNumber(value) || value < says;
    case "multipleOf":
      return !isNumber(value) || Number.isInteger(Number(value) / says);
    case "minLength":
      return length === undefined || length >= says;
    case "maxLength":
      return length === undefined || length <= says;
    case "minItems":
      return !items || items.length >= says;
    case "maxItems":
      return !items || items.length <= says;
    case "minProperties":
      return size === undefined || size >= says;
    case "maxProperties":
      return size === undefined || size <= says;
    case "uniqueItems":
      return !says || !items || !items.some((item, at) => items.slice(0, at).some((earlier) => equal(earlier, item)));
    case "pattern":
      return typeof value !== "string" || new RegExp(says, "u").test(value);
    case "allOf":
      return says.every((schema: unknown) => below(schema, value));
    case "anyOf":
      return says.some((schema: unknown) => below(schema, value));
    case "oneOf":
      return says.filter((schema: unknown) => below(schema, value)).length === 1;
    case "not":
      return !below(says, value);
    case "if": {
      const branch = below(says, value) ? all.then : all.else;
      return branch === undefined || below(branch, value);
    }
    case "$ref":
      return below(pointed(root, says), value);
    case "required":
      return !entries || says.every((name: string) => has(entries, name));
    case "dependentRequired":
      return (
        !entries ||
        Object.entries(says).every(([name, needs]) => !has(entries, name) || (needs as string[]).every((n) => has(entries, n)))
      );
    case "properties":
      return !entries || Object.entries(says).every(([name, schema]) => !has(entries, name) || below(schema, entries[name]));
    case "patternProperties":
      return (
        !entries ||
        Object.entries(says).every(([pattern, schema]) =>
          Object.keys(entries).every((name) => !new RegExp(pattern, "u").test(name) || below(schema, entries[name])),
        )
      );
    case "additionalProperties": {
      const patterns = Object.keys(all.patternProperties ?? {}).map((pattern) => new RegExp(pattern, "u"));
      const isKnown = (name: string) => has(all.properties ?? {}, name) || patterns.some((pattern) => pattern.test(name));
      return !entries || Object.keys(entries).every((name) => isKnown(name) || below(says, entries[name]));
    }
    case "propertyNames":
      return !entries || Object.keys(entries).every((name) => below(says, name));
    case "prefixItems":
      return !items || says.every((schema: unknown, at: number) => at >= items.length || below(schema, items[at]));
    case "items":
      return !items || items.slice(all.prefixItems?.length ?? 0).every((item) => below(says, item));
    case "contains":
      return !items || items.some((item) => below(says, item));
  }
  if (NOTES.has(keyword)) return true;
  throw new Error(`the test world does not know the keyword \`${keyword}\` of JSON Schema`);
}

function isOf(name: string, value: unknown): boolean {
  switch (name) {
    case "null":
      return value === null;
    case "boolean":
      return typeof value === "boolean";
    case "integer":
      return typeof value === "bigint" || Number.isInteger(value);
    case "number":
      return isNumber(value);
    case "string":
      return typeof value === "string";
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
  }
  return false;
}

function equal(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, at) => equal(item, b[at]));
  if (isObject(a) && isObject(b)) {
    const names = Object.keys(a);
    return names.length === Object.keys(b).length && names.every((name) => has(b, name) && equal(a[name], b[name]));
  }
  // A number and a bigint of the same value are the same number.
  return isNumber(a) && isNumber(b) ? a == b : a === b;
}

function pointed(root: unknown, reference: string): unknown {
  const parts = reference.startsWith("#") ? reference.slice(1).split("/").slice(1) : undefined;
  const name = (part: string) => part.replaceAll("~1", "/").replaceAll("~0", "~");
  const found = parts?.reduce((at: any, part) => at?.[name(part)], root);
  if (found === undefined) throw new Error(`the reference \`${reference}\` leads nowhere`);
  return found;
}
