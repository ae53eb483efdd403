import { expect, test } from "vitest";
import { formatInitials, PERSON_TONES, personTone } from "./person";

test("initials are those of the first and the last word", () => {
  expect(formatInitials("Grace Hopper")).toBe("GH");
  expect(formatInitials("ada")).toBe("A");
  expect(formatInitials("Mary Jane van Dyke")).toBe("MD");
  expect(formatInitials("ci-bot")).toBe("CB");
  expect(formatInitials("Émile Zola")).toBe("ÉZ");
  expect(formatInitials("  ")).toBe("?");
});

test("a person has the same colour wherever the name is shown", () => {
  expect(personTone("Ada")).toBe(personTone("ada"));
  const tones = ["ada", "bob", "grace", "linus", "vera", "ken"].map(personTone);
  expect(new Set(tones).size).toBeGreaterThan(2);
  for (const tone of tones) expect(tone).toBeLessThan(PERSON_TONES);
});
