/** Search parameters of pages: text or absent, so that a link to a filter is always a valid link. */

export function text(value: unknown): string | undefined {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A count in digits. Addresses once had it in quotes, and links to them live on. */
export function count(value: unknown): string | undefined {
  return /^"?(\d{1,9})"?$/.exec(text(value) ?? "")?.[1];
}

/** Parameters are plain text: what stands in an address is what was written, and nothing is read as JSON. */
export function readSearch(address: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(address));
}

export function writeSearch(values: Record<string, unknown>): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    const plain = text(value);
    if (plain !== undefined) written.set(name, plain);
  }
  return written.size === 0 ? "" : `?${written}`;
}

type Reader = typeof text;

export function search<Names extends string>(readers: Record<Names, Reader>) {
  return (raw: Record<string, unknown>): { [Name in Names]?: string } => {
    const found: { [Name in Names]?: string } = {};
    for (const name of Object.keys(readers) as Names[]) {
      const value = readers[name](raw[name]);
      if (value !== undefined) found[name] = value;
    }
    return found;
  };
}
