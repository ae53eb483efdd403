/** Makes a script that the server runs wait until the test releases it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { World } from "./world";

export class Latch {
  readonly #path: string;

  constructor(world: World, name: string) {
    this.#path = join(world.places, `${name}.latch`);
  }

  /** Shell condition that is true until the release. */
  get isHeld(): string {
    return `[ ! -e '${this.#path}' ]`;
  }

  release() {
    writeFileSync(this.#path, "");
  }
}
