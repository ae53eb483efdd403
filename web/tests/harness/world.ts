/** What the tests know about the server they talk to. */
import { readFileSync } from "node:fs";

/** `cookie` is a sign-in made before the tests, so that not each of them waits for a password to be checked. */
export type Person = { email: string; password: string; cookie?: string };

export type World = {
  base: string;
  org: string;
  token: string;
  /** A directory whose repositories the server may read. */
  places: string;
  ada: Person;
  grace: Person;
  linus: Person;
  vera: Person;
};

export const WORLD_FILE = "test-results-world.json";

export function world(): World {
  return JSON.parse(readFileSync(WORLD_FILE, "utf8"));
}
