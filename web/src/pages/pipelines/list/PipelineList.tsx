import { useQueries } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { type KeyboardEvent, type MouseEvent, type Ref, useImperativeHandle, useRef, useState } from "react";
import { Virtuoso, type VirtuosoHandle } from "react-virtuoso";
import type { Pagination, Pipeline } from "@/api/types";
import { useAccess } from "@/data/me";
import { PIPELINES_PAGE, type PipelineFilter, pipelinesQuery } from "@/data/pipelines";
import { useFastScroll } from "@/ui/fastScroll";
import { BlankRow, PipelineRow, ROW_PX } from "./PipelineRow";

const AHEAD_PX = 300;

const BLANK = { ScrollSeekPlaceholder: BlankRow };

export type PipelineListHandle = { focus: (index: number) => void };

type PipelinePageData = { data: Pipeline[]; pagination: Pagination };
type Props = { org: string; filter: PipelineFilter; first: PipelinePageData; ref: Ref<PipelineListHandle> };

/** Virtualized list that fetches the pages in view. Arrow keys move the focus, Enter opens. */
export function PipelineList({ org, filter, first, ref }: Props) {
  const router = useRouter();
  const virtual = useRef<VirtuosoHandle>(null);
  /** Keys may repeat faster than rows are rendered: only the last one counts. */
  const wanted = useRef(0);
  const box = useRef<HTMLDivElement>(null);
  const [{ from, to }, setSeen] = useState({ from: 0, to: 0 });
  const numbers = Array.from({ length: to - from + 1 }, (_, at) => from + at);
  const pages = useQueries({ queries: numbers.map(number => pipelinesQuery(org, filter, number)) });
  const last = pages.findLast(page => page.data !== undefined)?.data ?? first;
  const total = first.pagination.total ?? estimateTotal(last);

  const fastScroll = useFastScroll(({ startIndex, endIndex }) => {
    const from = Math.floor(startIndex / PIPELINES_PAGE);
    const to = Math.floor(endIndex / PIPELINES_PAGE);
    setSeen(was => (was.from === from && was.to === to ? was : { from, to }));
  });

  const at = (index: number): Pipeline | undefined =>
    pages[Math.floor(index / PIPELINES_PAGE) - from]?.data?.data[index % PIPELINES_PAGE];
  const focus = (index: number) => {
    const next = Math.min(Math.max(index, 0), total - 1);
    wanted.current = next;
    const found = () => {
      if (wanted.current === next)
        box.current?.querySelector<HTMLElement>(`[data-index="${next}"] a`)?.focus();
    };
    virtual.current?.scrollIntoView({ index: next, done: () => requestAnimationFrame(found) });
    found();
  };
  useImperativeHandle(ref, () => ({ focus }));
  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const here = (event.target as HTMLElement).closest("[data-index]")?.getAttribute("data-index");
    if (by === undefined || here == null) return;
    event.preventDefault();
    focus(Number(here) + by);
  };
  const hrefOf = (pipeline: Pipeline | undefined) =>
    pipeline ? `/o/${org}/pipelines/${encodeURIComponent(pipeline.slug)}` : "";
  const access = useAccess();
  const open = (event: MouseEvent) => {
    const href = (event.target as HTMLElement).closest("a")?.getAttribute("href");
    const isForBrowser =
      event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
    if (!href || isForBrowser) return;
    event.preventDefault();
    router.navigate({ href });
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the links inside handle the keys; this moves the focus between them
    <div ref={box} onKeyDown={move} onClick={open}>
      <Virtuoso
        ref={virtual}
        useWindowScroll
        totalCount={total}
        fixedItemHeight={ROW_PX}
        increaseViewportBy={AHEAD_PX}
        components={BLANK}
        {...fastScroll}
        itemContent={index => <PipelineRow href={hrefOf(at(index))} pipeline={at(index)} access={access} />}
      />
    </div>
  );
}

/** Row count without a total: the rows loaded, plus one page if there are more. */
function estimateTotal({ data, pagination }: PipelinePageData): number {
  return pagination.offset + data.length + (pagination.hasMore ? PIPELINES_PAGE : 0);
}
