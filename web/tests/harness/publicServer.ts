/** A server for several organizations: with TLS instead of `--local`. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PROGRAM } from "./server";
import type { Person } from "./world";

const CERTIFICATE =
  "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=berth";
const SERVING = "berth is serving at ";

/** Whether this machine can create the server's certificate. */
export function hasOpenssl(): boolean {
  try {
    execFileSync("openssl", ["version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** A `berth serve` process with the organization acme, whose owner is an instance admin. Browsers do not trust its certificate. */
export class PublicServer {
  readonly owner: Person;
  readonly #temporary = mkdtempSync(join(tmpdir(), "berth-web-"));
  readonly #process: ChildProcess;

  constructor() {
    const data = join(this.#temporary, "data");
    const key = join(this.#temporary, "key.pem");
    const certificate = join(this.#temporary, "certificate.pem");
    const files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate];
    execFileSync("openssl", [...CERTIFICATE.split(" "), ...files], { stdio: "ignore" });
    const init = ["init", "--org", "acme", "--email", "ada@acme.test", "--json", "--data-dir", data];
    const { user, password } = JSON.parse(execFileSync(PROGRAM, init, { encoding: "utf8" }));
    this.owner = { email: user.email, password };
    this.#process = spawn(PROGRAM, ["serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--no-runner"], {
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, BERTH_TLS__KEY: key, BERTH_TLS__CERTIFICATE: certificate },
    });
  }

  /** Returns the URL of the dashboard. */
  async ready(): Promise<string> {
    if (!this.#process.stdout) throw new Error("the server has no stdout");
    const lines = createInterface({ input: this.#process.stdout });
    const [line] = await Promise.race([
      once(lines, "line"),
      once(this.#process, "exit").then(() =>
        Promise.reject(new Error("the server exited before it was ready")),
      ),
    ]);
    return String(line).replace(SERVING, "");
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
