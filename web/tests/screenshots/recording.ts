/** Records a page as an animated WebP, with a visible pointer and captions. */
import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import type { CDPSession, Locator, Page } from "@playwright/test";

/** Encodes images. Installed on demand, because only this script needs it. */
const SHARP = "sharp@0.35.5";
const SHARP_DIR = resolve("node_modules/.recording");
const FRAME_WIDTH = 1120;
const QUALITY = 68;
/** Frames closer together than this are dropped. */
const FRAME_MS_MIN = 120;
/** A frame is shown for at most this long. */
const FRAME_MS_MAX = 2_500;
/** A longer recording is sped up. */
const LENGTH_MS_MAX = 32_000;

type Frame = { at: number; jpeg: Buffer };

type Sharp = (
  input: Buffer | Buffer[],
  options?: object,
) => {
  resize(width: number): ReturnType<Sharp>;
  png(): ReturnType<Sharp>;
  webp(options: object): ReturnType<Sharp>;
  toBuffer(): Promise<Buffer>;
  toFile(path: string): Promise<unknown>;
};

export class Recording {
  readonly #page: Page;
  readonly #frames: Frame[] = [];
  readonly #tools: CDPSession;

  private constructor(page: Page, tools: CDPSession) {
    this.#page = page;
    this.#tools = tools;
  }

  static async start(page: Page): Promise<Recording> {
    const tools = await page.context().newCDPSession(page);
    const recording = new Recording(page, tools);
    tools.on("Page.screencastFrame", ({ data, sessionId, metadata }) => {
      const at = (metadata.timestamp ?? Date.now() / 1000) * 1000;
      recording.#frames.push({ at, jpeg: Buffer.from(data, "base64") });
      tools.send("Page.screencastFrameAck", { sessionId }).catch(() => {});
    });
    await tools.send("Page.startScreencast", { format: "jpeg", quality: 90 });
    return recording;
  }

  /** Shows a caption at the bottom of the page for this time. */
  async caption(text: string, ms: number) {
    await this.#page.evaluate(text => {
      const id = "recording-caption";
      const box = document.getElementById(id) ?? document.body.appendChild(document.createElement("div"));
      box.id = id;
      box.textContent = text;
      Object.assign(box.style, {
        position: "fixed",
        bottom: "28px",
        left: "50%",
        transform: "translateX(-50%)",
        padding: "10px 20px",
        borderRadius: "999px",
        background: "#0d2733",
        color: "#fff",
        font: "600 19px Inter Variable, sans-serif",
        boxShadow: "0 6px 24px rgba(0,0,0,.35)",
        zIndex: "100000",
        pointerEvents: "none",
      });
    }, text);
    await this.#page.waitForTimeout(ms);
  }

  /** Moves the pointer to an element and clicks it. */
  async click(target: Locator) {
    await target.scrollIntoViewIfNeeded();
    const box = await target.boundingBox();
    if (!box) throw new Error("the element to click is not visible");
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await this.#movePointer(x, y);
    await this.#page.waitForTimeout(700);
    await target.click();
  }

  async type(target: Locator, text: string) {
    await target.click();
    await target.pressSequentially(text, { delay: 45 });
  }

  async #movePointer(x: number, y: number) {
    await this.#page.evaluate(
      ([x, y]) => {
        const id = "recording-pointer";
        let dot = document.getElementById(id);
        if (!dot) {
          dot = document.body.appendChild(document.createElement("div"));
          dot.id = id;
          Object.assign(dot.style, {
            position: "fixed",
            left: "0",
            top: "0",
            width: "26px",
            height: "26px",
            margin: "-13px",
            borderRadius: "50%",
            background: "rgba(255, 170, 60, .55)",
            border: "2px solid #fff",
            boxShadow: "0 0 0 1px rgba(0,0,0,.4)",
            transition: "transform .5s ease",
            transform: "translate(640px, 400px)",
            zIndex: "100001",
            pointerEvents: "none",
          });
          dot.getBoundingClientRect();
        }
        dot.style.transform = `translate(${x}px, ${y}px)`;
      },
      [x, y],
    );
  }

  /** Stops and writes the file. Returns its length in seconds and its size in bytes. */
  async save(path: string): Promise<{ seconds: number; bytes: number }> {
    // Frames arrive late on a busy machine.
    await this.#page.waitForTimeout(FRAME_MS_MAX);
    await this.#tools.send("Page.stopScreencast");
    // Frames may arrive out of order.
    const frames = this.#frames.toSorted((a, b) => a.at - b.at);
    const kept = frames.filter((frame, at) => {
      const next = frames[at + 1];
      return !next || next.at - frame.at >= FRAME_MS_MIN;
    });
    // Waiting for a busy machine is cut short.
    const shown = kept.map((frame, at) =>
      Math.min(FRAME_MS_MAX, (kept[at + 1]?.at ?? frame.at + FRAME_MS_MAX) - frame.at),
    );
    const total = shown.reduce((sum, ms) => sum + ms, 0);
    const speed = Math.max(1, total / LENGTH_MS_MAX);
    const delay = shown.map(ms => Math.round(ms / speed));
    const sharp = loadSharp();
    const images = await Promise.all(
      kept.map(({ jpeg }) => sharp(jpeg).resize(FRAME_WIDTH).png().toBuffer()),
    );
    await sharp(images, { join: { animated: true } })
      .webp({ quality: QUALITY, effort: 5, minSize: true, loop: 0, delay })
      .toFile(path);
    return { seconds: delay.reduce((sum, ms) => sum + ms, 0) / 1000, bytes: statSync(path).size };
  }
}

function loadSharp(): Sharp {
  if (!existsSync(join(SHARP_DIR, "node_modules/sharp")))
    execFileSync("npm", ["install", "--no-save", "--prefix", SHARP_DIR, SHARP], { stdio: "ignore" });
  return createRequire(join(SHARP_DIR, "package.json"))("sharp");
}
