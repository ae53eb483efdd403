/** Renders JSON Schemas of step parameters as a table and as sample YAML. */

/** Limits for schemas, which are untrusted. */
const ROWS_MAX = 100;
const DEPTH_MAX = 4;

export type ParamRow = { name: string; type: string; isRequired: boolean; note: string };

type Schema = Record<string, unknown>;

function asSchema(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** Returns a row for each parameter; nested ones have dotted names. */
export function listParams(schema: unknown): ParamRow[] {
  const rows: ParamRow[] = [];
  collectParams(asSchema(schema), "", 0, rows);
  return rows.slice(0, ROWS_MAX);
}

function collectParams(schema: Schema, before: string, depth: number, rows: ParamRow[]) {
  const required = new Set(asList(schema.required));
  for (const [name, value] of Object.entries(asSchema(schema.properties))) {
    if (rows.length >= ROWS_MAX) return;
    const inner = asSchema(value);
    rows.push({
      name: before + name,
      type: formatType(inner),
      isRequired: required.has(name),
      note: formatNote(inner),
    });
    if (depth + 1 >= DEPTH_MAX) continue;
    collectParams(inner, `${before}${name}.`, depth + 1, rows);
    collectParams(asSchema(inner.items), `${before}${name}[].`, depth + 1, rows);
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
  if (schema.const !== undefined) return asText(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map(asText).join(" | ");
  const choices = [...asList(schema.oneOf), ...asList(schema.anyOf)];
  if (choices.length > 0)
    return [...new Set(choices.map(each => formatType(asSchema(each), depth + 1)))].join(" or ");
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const words = types.map(type =>
    type === "array"
      ? `array of ${formatType(asSchema(schema.items), depth + 1)}`
      : (TYPES[String(type)] ?? "any"),
  );
  return words.join(" or ");
}

function formatNote(schema: Schema): string {
  const { minimum, maximum, minLength, maxLength, pattern } = schema;
  const parts = [
    typeof schema.description === "string" ? schema.description : "",
    schema.default === undefined ? "" : `default ${asText(schema.default)}`,
    minimum === undefined ? "" : `minimum ${asText(minimum)}`,
    maximum === undefined ? "" : `maximum ${asText(maximum)}`,
    minLength === undefined ? "" : `at least ${asText(minLength)} characters`,
    maxLength === undefined ? "" : `at most ${asText(maxLength)} characters`,
    pattern === undefined ? "" : `matches ${asText(pattern)}`,
  ];
  return parts.filter(part => part !== "").join("; ");
}

/** Returns the YAML of a step of this type with sample values for its required parameters. */
export function formatStepYaml(use: string, name: string, schema: unknown): string {
  const root = asSchema(schema);
  const properties = asSchema(root.properties);
  const required = asList(root.required).filter((each): each is string => typeof each === "string");
  const lines = [`- name: ${quoteYaml(name)}`, `  type: ${use}`];
  if (required.length > 0) {
    lines.push("  params:");
    for (const each of required.slice(0, ROWS_MAX))
      lines.push(`    ${quoteYaml(each)}: ${JSON.stringify(sampleValue(asSchema(properties[each])))}`);
  }
  return `${lines.join("\n")}\n`;
}

/** Quotes text for YAML unless it is a plain word. JSON strings are valid YAML. */
function quoteYaml(text: string): string {
  const isPlain = /^[A-Za-z][\w -]*\w$/.test(text) && !/^(true|false|null|yes|no|on|off)$/i.test(text);
  return isPlain ? text : JSON.stringify(text);
}

function sampleValue(schema: Schema, depth = 0): unknown {
  const given = schema.default ?? schema.const ?? asList(schema.examples)[0] ?? schema.example;
  if (given !== undefined) return given;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const choice = asList(schema.oneOf)[0] ?? asList(schema.anyOf)[0];
  if (choice !== undefined && depth < DEPTH_MAX) return sampleValue(asSchema(choice), depth + 1);
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case "integer":
    case "number":
      return typeof schema.minimum === "number" ? schema.minimum : 1;
    case "boolean":
      return true;
    case "array":
      return depth < DEPTH_MAX ? [sampleValue(asSchema(schema.items), depth + 1)] : [];
    case "object":
      return sampleObject(schema, depth);
    default:
      return "…";
  }
}

function sampleObject(schema: Schema, depth: number): Record<string, unknown> {
  if (depth >= DEPTH_MAX) return {};
  const properties = asSchema(schema.properties);
  const names = asList(schema.required).filter((each): each is string => typeof each === "string");
  return Object.fromEntries(
    names.slice(0, ROWS_MAX).map(name => [name, sampleValue(asSchema(properties[name]), depth + 1)]),
  );
}
