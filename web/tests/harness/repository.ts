/** Git repositories on disk that the server reads. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { World } from "./world";

const WHO = ["-c", "user.name=Ada", "-c", "user.email=ada@acme.test"];
/** Ignores the machine's and the user's Git configuration, which may sign commits or run hooks. */
const ENV = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };

export class Repository {
  readonly path: string;

  constructor(world: World, name: string) {
    this.path = join(world.places, name);
    mkdirSync(this.path);
    this.git("init", "--quiet", "--initial-branch", "main");
  }

  git(...args: string[]): string {
    return execFileSync("git", ["-C", this.path, ...WHO, ...args], { encoding: "utf8", env: ENV }).trim();
  }

  write(name: string, text: string, mode = 0o644) {
    const path = join(this.path, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    chmodSync(path, mode);
    return this;
  }

  commit(message: string): string {
    this.git("add", "--all");
    this.git("commit", "--quiet", "--message", message);
    return this.git("rev-parse", "HEAD");
  }
}
