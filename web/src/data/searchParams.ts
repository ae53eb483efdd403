/** Search parameters of pages: text or absent, so that any URL is valid. */

export function parseText(value: unknown): string | undefined {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A number in digits. Also accepts quotes, which old links have. */
export function parseCount(value: unknown): string | undefined {
  return /^"?(\d{1,9})"?$/.exec(parseText(value) ?? "")?.[1];
}

/** Reads parameters as plain text, unlike the router's default, which parses JSON. */
export function parseSearch(query: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(query));
}

export function stringifySearch(values: Record<string, unknown>): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    const plain = parseText(value);
    if (plain !== undefined) written.set(name, plain);
  }
  return written.size === 0 ? "" : `?${written}`;
}

type Reader = typeof parseText;

export function createSearchValidator<Names extends string>(readers: Record<Names, Reader>) {
  return (raw: Record<string, unknown>): { [Name in Names]?: string } => {
    const found: { [Name in Names]?: string } = {};
    for (const name of Object.keys(readers) as Names[]) {
      const value = readers[name](raw[name]);
      if (value !== undefined) found[name] = value;
    }
    return found;
  };
}
