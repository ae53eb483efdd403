/** Height of the rows on Home, as chosen in this browser. */
export type Density = "comfortable" | "dense";

const KEY = "berth.home.density";

export function loadDensity(): Density | null {
  const stored = localStorage.getItem(KEY);
  return stored === "comfortable" || stored === "dense" ? stored : null;
}

export function saveDensity(density: Density) {
  localStorage.setItem(KEY, density);
}
