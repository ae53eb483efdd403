/** Starts and stops a server with its own data directory. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { addTestData, type DataPart } from "./testData";
import type { World } from "./world";

/** Parent of the directories for test files, which are exposed to steps. */
const TEMPORARY = "/var/tmp";
/** Password of the members that tests add. */
const PASSWORD = "gulls over a quiet quay";
export const PROGRAM = process.env.BERTH_PROGRAM ?? "../target/debug/berth";

/** Changes the database of the running server. */
const AGE_LOGINS = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=10)
db.execute("UPDATE sign_ins SET confirmed_at = confirmed_at - 2 * 60 * 60 * 1000000")
db.commit()
`;

/** The line that `berth serve --demo --json` prints when it is ready. */
export type Announcement = {
  baseUrl: string;
  dashboardUrl: string;
  organizations: { slug: string; email: string; password: string; apiToken: string }[];
  signInUrl: string;
  storyUrl: string;
  sites: Record<string, string>;
};

/** A `berth serve --demo` process. It uses a free port and a temporary data directory, which it removes. */
export class Server {
  readonly #process: ChildProcess;
  /** Parent of the data directory. */
  readonly #temporary = mkdtempSync(join(tmpdir(), "berth-web-"));

  constructor(args: string[], exposed = "") {
    if (!existsSync(PROGRAM))
      throw new Error(`${PROGRAM} not found: run cargo build -p berth, or set BERTH_PROGRAM`);
    this.#process = spawn(PROGRAM, ["serve", "--demo", "--json", "--listen", "127.0.0.1:0", ...args], {
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, TMPDIR: this.#temporary, ...(exposed && { BERTH_RUNNER__EXPOSE: exposed }) },
    });
  }

  async ready(): Promise<Announcement> {
    if (!this.#process.stdout) throw new Error("the server has no stdout");
    const lines = createInterface({ input: this.#process.stdout });
    const [line] = await Promise.race([
      once(lines, "line"),
      once(this.#process, "exit").then(() =>
        Promise.reject(new Error("the server exited before it was ready")),
      ),
    ]);
    return JSON.parse(line as string);
  }

  /** Runs `berth admin` on this server's data directory and returns its output. */
  admin(...args: string[]): string {
    const options = ["--data-dir", this.#data()];
    return execFileSync(PROGRAM, ["admin", ...args, ...options], { encoding: "utf8" });
  }

  /** Ages all logins by two hours: the server requires the password again after one. */
  ageLogins() {
    execFileSync("python3", ["-c", AGE_LOGINS, join(this.#data(), "berth.db")]);
  }

  #data(): string {
    const [data = ""] = readdirSync(this.#temporary);
    return join(this.#temporary, data);
  }

  async stop() {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const exited = once(this.#process, "exit");
      this.#process.kill("SIGTERM");
      await exited;
    }
    rmSync(this.#temporary, { recursive: true, force: true });
  }
}

/** The server of the current spec file. A worker runs files one after the other, each with a new server. */
export class FileServer {
  #file?: string;
  #server?: Server;
  #world?: World;
  #places?: string;

  /** Returns the server of a file; the first test of the file starts it with these arguments and adds the test data. */
  async worldOf(file: string, parts: DataPart[], args: string[] = []): Promise<World> {
    if (this.#file === file && this.#world) return this.#world;
    await this.stop();
    this.#file = file;
    const places = mkdtempSync(join(TEMPORARY, "berth-web-"));
    this.#places = places;
    const repositories = ["--repository-root", places, "--egress-allow", "127.0.0.1"];
    this.#server = new Server(["--bare", "--rate-limit", "off", ...repositories, ...args], places);
    const world = parseWorld(await this.#server.ready(), places);
    await addTestData(world, parts);
    this.#world = world;
    return world;
  }

  /** Creates a password reset link with `berth admin`. */
  resetLink(email: string): string {
    if (!this.#server) throw new Error("no server is running");
    return JSON.parse(this.#server.admin("reset-password", email, "--json")).url;
  }

  /** Ages all logins by two hours. */
  ageLogins() {
    if (!this.#server) throw new Error("no server is running");
    this.#server.ageLogins();
  }

  async stop() {
    this.#world = undefined;
    await this.#server?.stop();
    this.#server = undefined;
    if (this.#places) rmSync(this.#places, { recursive: true, force: true });
    this.#places = undefined;
  }
}

function parseWorld({ baseUrl, dashboardUrl, organizations }: Announcement, places: string): World {
  const [acme] = organizations;
  if (!acme) throw new Error("the server has no organization");
  return {
    base: dashboardUrl,
    server: baseUrl.replace(/\/api\/v1$/, ""),
    org: acme.slug,
    token: acme.apiToken,
    places,
    ada: { email: acme.email, password: acme.password },
    grace: { email: "grace@acme.test", password: PASSWORD },
    linus: { email: "linus@acme.test", password: PASSWORD },
    vera: { email: "vera@acme.test", password: PASSWORD },
  };
}
