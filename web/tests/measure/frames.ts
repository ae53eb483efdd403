/** Measures scrolling: gaps between frames, long tasks, and CPU time of the page's main thread. */
import type { Page } from "@playwright/test";

const FRAMES = 240;
const FRAMES_WITH_CPU = 60;
/** Passes over the same rows: a frame that is long in one pass only is caused by the machine. */
const PASSES = 3;

/** The scroller: an element by its label, or the window. */
export type Scroller = { label: string | null };

export type ScrollMetrics = {
  gapMsMax: number;
  gapMsMaxOfEach: number[];
  gapMsP95: number;
  gapMsMedian: number;
  longTasks: number;
  longTaskMsMax: number;
  cpuMsMax: number;
  cpuMsMedian: number;
};

export async function measureScrolling(
  page: Page,
  scroller: Scroller,
  stepPx: number,
): Promise<ScrollMetrics> {
  const passes = [];
  for (let pass = 0; pass < PASSES; pass++) {
    await scrollToTop(page, scroller);
    passes.push(await measureFrameGaps(page, scroller, stepPx));
  }
  await scrollToTop(page, scroller);
  const cpu = await measureCpuTime(page, scroller, stepPx);
  const of = (values: number[], part: number) => {
    const sorted = [...values].sort((a, b) => a - b);
    return Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0) * 10) / 10;
  };
  const took = passes.flatMap(each => each.took);
  const tasks = passes.flatMap(each => each.tasks);
  return {
    gapMsMax: of(took, 1),
    gapMsMaxOfEach: passes.map(each => of(each.took, 1)),
    gapMsP95: of(took, 0.95),
    gapMsMedian: of(took, 0.5),
    longTasks: tasks.length,
    longTaskMsMax: of(tasks, 1),
    cpuMsMax: of(cpu, 1),
    cpuMsMedian: of(cpu, 0.5),
  };
}

export async function scrollToTop(page: Page, { label }: Scroller) {
  await page.evaluate(async label => {
    const found = label === null ? null : document.querySelector(`[aria-label="${label}"]`);
    (found ?? window).scrollTo(0, 0);
    // Wait until rendering is done.
    await new Promise(done => requestIdleCallback(done));
    await new Promise(done => requestIdleCallback(done));
  }, label);
}

async function measureFrameGaps(page: Page, { label }: Scroller, stepPx: number) {
  return page.evaluate(
    async ({ label, stepPx, count }) => {
      const found = label === null ? null : document.querySelector(`[aria-label="${label}"]`);
      const tasks: number[] = [];
      const observer = new PerformanceObserver(list => {
        for (const entry of list.getEntries()) tasks.push(entry.duration);
      });
      observer.observe({ type: "longtask" });
      const took: number[] = [];
      let last = await new Promise<number>(requestAnimationFrame);
      for (let frame = 0; frame < count; frame++) {
        (found ?? window).scrollBy(0, stepPx);
        const now = await new Promise<number>(requestAnimationFrame);
        took.push(now - last);
        last = now;
      }
      observer.disconnect();
      return { took, tasks };
    },
    { label, stepPx, count: FRAMES },
  );
}

/** CPU time of the page's main thread for each frame, independent of other processes. */
export async function measureCpuTime(page: Page, { label }: Scroller, stepPx: number): Promise<number[]> {
  const tools = await page.context().newCDPSession(page);
  await tools.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => {
    const { metrics } = await tools.send("Performance.getMetrics");
    return (metrics.find(each => each.name === "TaskDuration")?.value ?? 0) * 1000;
  };
  const took: number[] = [];
  for (let frame = 0; frame < FRAMES_WITH_CPU; frame++) {
    const before = await spent();
    await page.evaluate(
      ({ label, stepPx }) => {
        const found = label === null ? null : document.querySelector(`[aria-label="${label}"]`);
        (found ?? window).scrollBy(0, stepPx);
        return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
      },
      { label, stepPx },
    );
    took.push((await spent()) - before);
  }
  await tools.detach();
  return took;
}
