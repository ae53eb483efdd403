/** Runs `berth login` as on a machine with a browser. The browser is a script that notes the page to open. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM } from "./server";

/** Longer than the server's polling interval. */
const END_MS_MAX = 30_000;

export class CliLogin {
  readonly #home = mkdtempSync(join(tmpdir(), "berth-cli-"));
  readonly #process: ChildProcess;
  #notes = "";

  constructor(...args: string[]) {
    const browser = join(this.#home, "browser");
    const opened = this.#openedFile();
    writeFileSync(browser, `#!/bin/sh\nprintf %s "$1" > ${opened}.new && mv ${opened}.new ${opened}\n`);
    chmodSync(browser, 0o700);
    this.#process = spawn(PROGRAM, ["login", ...args], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { PATH: process.env.PATH, XDG_CONFIG_HOME: this.#home, BROWSER: browser },
    });
    this.#process.stderr?.on("data", chunk => {
      this.#notes += chunk;
    });
  }

  /** The page that the command has opened, or undefined. */
  openedPage(): string | undefined {
    return existsSync(this.#openedFile()) ? readFileSync(this.#openedFile(), "utf8") : undefined;
  }

  /** The code that the command shows, or undefined. */
  shownCode(): string | undefined {
    return this.#notes.match(/\b[A-Z]{4}-[A-Z]{4}\b/)?.[0];
  }

  async exitCode(): Promise<number | null> {
    if (this.#process.exitCode !== null) return this.#process.exitCode;
    const [code] = await once(this.#process, "exit", { signal: AbortSignal.timeout(END_MS_MAX) });
    return code;
  }

  /** Runs another command with the saved login. */
  run(...args: string[]): string {
    const env = { PATH: process.env.PATH, XDG_CONFIG_HOME: this.#home };
    return execFileSync(PROGRAM, args, { encoding: "utf8", env });
  }

  remove() {
    this.#process.kill("SIGKILL");
    rmSync(this.#home, { recursive: true, force: true });
  }

  #openedFile(): string {
    return join(this.#home, "opened");
  }
}
