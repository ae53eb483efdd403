/** Renders JSON Schemas of step parameters as a table and as sample YAML. */

/** Limits for schemas, which are untrusted. */
const ROWS_MAX = 100;
const DEPTH_MAX = 4;

export type Row = { name: string; type: string; isRequired: boolean; note: string };

type Schema = Record<string, unknown>;

function schemaOf(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** Returns a row for each parameter; nested ones have dotted names. */
export function rowsOf(schema: unknown): Row[] {
  const rows: Row[] = [];
  walk(schemaOf(schema), "", 0, rows);
  return rows.slice(0, ROWS_MAX);
}

function walk(schema: Schema, before: string, depth: number, rows: Row[]) {
  const required = new Set(listOf(schema.required));
  for (const [name, value] of Object.entries(schemaOf(schema.properties))) {
    if (rows.length >= ROWS_MAX) return;
    const inner = schemaOf(value);
    rows.push({
      name: before + name,
      type: formatType(inner),
      isRequired: required.has(name),
      note: formatNote(inner),
    });
    if (depth + 1 >= DEPTH_MAX) continue;
    walk(inner, `${before}${name}.`, depth + 1, rows);
    walk(schemaOf(inner.items), `${before}${name}[].`, depth + 1, rows);
  }
}

const TYPES: Record<string, string> = {
  string: "string",
  integer: "integer",
  number: "number",
  boolean: "boolean",
  object: "object",
  null: "null",
};

function formatType(schema: Schema, depth = 0): string {
  if (depth >= DEPTH_MAX) return "any";
  if (schema.const !== undefined) return textOf(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map(textOf).join(" | ");
  const choices = [...listOf(schema.oneOf), ...listOf(schema.anyOf)];
  if (choices.length > 0)
    return [...new Set(choices.map(each => formatType(schemaOf(each), depth + 1)))].join(" or ");
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const words = types.map(type =>
    type === "array"
      ? `array of ${formatType(schemaOf(schema.items), depth + 1)}`
      : (TYPES[String(type)] ?? "any"),
  );
  return words.join(" or ");
}

function formatNote(schema: Schema): string {
  const { minimum, maximum, minLength, maxLength, pattern } = schema;
  const parts = [
    typeof schema.description === "string" ? schema.description : "",
    schema.default === undefined ? "" : `default ${textOf(schema.default)}`,
    minimum === undefined ? "" : `minimum ${textOf(minimum)}`,
    maximum === undefined ? "" : `maximum ${textOf(maximum)}`,
    minLength === undefined ? "" : `at least ${textOf(minLength)} characters`,
    maxLength === undefined ? "" : `at most ${textOf(maxLength)} characters`,
    pattern === undefined ? "" : `matches ${textOf(pattern)}`,
  ];
  return parts.filter(part => part !== "").join("; ");
}

/** Returns the YAML of a step of this type with sample values for its required parameters. */
export function stepYaml(use: string, name: string, schema: unknown): string {
  const root = schemaOf(schema);
  const properties = schemaOf(root.properties);
  const required = listOf(root.required).filter((each): each is string => typeof each === "string");
  const lines = [`- name: ${quote(name)}`, `  type: ${use}`];
  if (required.length > 0) {
    lines.push("  params:");
    for (const each of required.slice(0, ROWS_MAX))
      lines.push(`    ${quote(each)}: ${JSON.stringify(sample(schemaOf(properties[each])))}`);
  }
  return `${lines.join("\n")}\n`;
}

/** Quotes text for YAML unless it is a plain word. JSON strings are valid YAML. */
function quote(text: string): string {
  const isPlain = /^[A-Za-z][\w -]*\w$/.test(text) && !/^(true|false|null|yes|no|on|off)$/i.test(text);
  return isPlain ? text : JSON.stringify(text);
}

function sample(schema: Schema, depth = 0): unknown {
  const given = schema.default ?? schema.const ?? listOf(schema.examples)[0] ?? schema.example;
  if (given !== undefined) return given;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const choice = listOf(schema.oneOf)[0] ?? listOf(schema.anyOf)[0];
  if (choice !== undefined && depth < DEPTH_MAX) return sample(schemaOf(choice), depth + 1);
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case "integer":
    case "number":
      return typeof schema.minimum === "number" ? schema.minimum : 1;
    case "boolean":
      return true;
    case "array":
      return depth < DEPTH_MAX ? [sample(schemaOf(schema.items), depth + 1)] : [];
    case "object":
      return inside(schema, depth);
    default:
      return "…";
  }
}

function inside(schema: Schema, depth: number): Record<string, unknown> {
  if (depth >= DEPTH_MAX) return {};
  const properties = schemaOf(schema.properties);
  const names = listOf(schema.required).filter((each): each is string => typeof each === "string");
  return Object.fromEntries(
    names.slice(0, ROWS_MAX).map(name => [name, sample(schemaOf(properties[name]), depth + 1)]),
  );
}
