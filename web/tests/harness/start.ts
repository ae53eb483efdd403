/** Starts the real server with throw-away data, fills it, and stops it after the last test. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fill } from "./fill";
import { WORLD_FILE, type World } from "./world";

export const PROGRAM = process.env.BERTH_PROGRAM ?? "../target/debug/berth";

export default async function start() {
  if (!existsSync(PROGRAM))
    throw new Error(`there is no ${PROGRAM}: cargo build -p berth, or set BERTH_PROGRAM`);
  const places = mkdtempSync(join(tmpdir(), "berth-web-"));
  const more = ["--repository-root", places, "--egress-allow", "127.0.0.1"];
  const server = spawn(
    PROGRAM,
    ["serve", "--demo", "--bare", "--json", "--listen", "127.0.0.1:0", "--rate-limit", "off", ...more],
    {
      stdio: ["ignore", "pipe", "ignore"],
    },
  );
  const stop = async () => {
    const ended = once(server, "exit");
    server.kill("SIGTERM");
    await ended;
    rmSync(WORLD_FILE, { force: true });
    rmSync(places, { recursive: true, force: true });
  };
  try {
    const world = { ...(await ready(server)), places };
    await fill(world);
    writeFileSync(WORLD_FILE, JSON.stringify(world));
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}

async function ready(server: ChildProcess): Promise<Omit<World, "places">> {
  if (!server.stdout) throw new Error("the server has no output");
  const lines = createInterface({ input: server.stdout });
  const [line] = await Promise.race([
    once(lines, "line"),
    once(server, "exit").then(() => Promise.reject(new Error("the server ended before it was ready"))),
  ]);
  const said = JSON.parse(line as string);
  const [acme] = said.organizations;
  return {
    base: said.baseUrl.replace(/\/api\/v1$/, ""),
    org: acme.slug,
    token: acme.apiToken,
    ada: { email: acme.email, password: acme.password },
    grace: { email: "grace@acme.test", password: "" },
    linus: { email: "linus@acme.test", password: "" },
    vera: { email: "vera@acme.test", password: "" },
  };
}
