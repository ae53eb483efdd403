/** Search parameters of pages: text or absent, so that a link to a filter is always a valid link. */

export function text(value: unknown): string | undefined {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
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
