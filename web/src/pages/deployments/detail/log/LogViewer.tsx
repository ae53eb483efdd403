import { Box, Group, Skeleton, Stack, Text } from "@mantine/core";
import { useMergedRef } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { VirtuosoHandle } from "react-virtuoso";
import { type LogSource, searchLog } from "@/data/logs";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { useShortcuts } from "@/ui/shortcuts";
import { detectFailingLine } from "./failingLine";
import { findGroup, initiallyFolded, VisibleRows } from "./groups";
import { LogLines } from "./LogLines";
import { LogSearch } from "./LogSearch";
import { LogToolbar } from "./LogToolbar";
import styles from "./log.module.css";
import { formatRange, type LineRange, parseRange, selectLine } from "./range";
import { SearchMatches } from "./SearchMatches";
import { useFullScreen } from "./useFullScreen";
import { useLog } from "./useLog";
import { type LineTarget, useScrollToLines } from "./useScrollToLines";

const MATCHES_MAX = 1_000;
const SEARCH_AGAIN_MS = 5_000;

export type LogView = { lines?: string; q?: string };

type Props = {
  source: LogSource;
  name: string;
  hasFailed: boolean;
  view: LogView;
  jump: LineTarget | null;
  onView: (view: LogView) => void;
};

/** Too narrow for the lines of most logs, which are wrapped at first. */
const NARROW_QUERY = "(max-width: 48em)";

/** Log viewer. Opens at the lines in the URL, at the failing line, or follows the end while the log grows. */
export default function LogViewer(props: Props) {
  const log = useLog(props.source);
  if (log.state.error != null && !log.state.isOpen)
    return <ProblemPanel error={log.state.error} retry={() => log.buffer.retry()} />;
  if (!log.isReady) return <LogSkeleton />;
  if (log.state.lines === 0)
    return (
      <Box className={styles.frame} p="lg" ta="center">
        <Text c="dimmed" role="status">
          {log.state.isComplete ? "No output" : "No output yet"}
        </Text>
      </Box>
    );
  return <OpenLog {...props} log={log} />;
}

function OpenLog(props: Props & { log: ReturnType<typeof useLog> }) {
  const { source, name, hasFailed, view, jump, onView, log } = props;
  const { buffer, state, groups } = log;
  const chosen = parseRange(view.lines);
  const q = view.q ?? "";
  const handle = useRef<VirtuosoHandle>(null);
  const frame = useRef<HTMLDivElement>(null);
  const full = useFullScreen();
  const frameRef = useMergedRef(frame, full.trap);
  const [wrap, setWrap] = useState(() => matchMedia(NARROW_QUERY).matches);
  const [failing, setFailing] = useState<number | null>(() => (hasFailed ? findFailingLine(log) : null));
  const [isFollowing, setFollowing] = useState(!state.isComplete && chosen === null);
  // A group that was followed does not fold when it ends.
  const [wasWatched] = useState(!state.isComplete);
  const [toggled, setToggled] = useState<ReadonlyMap<number, boolean>>(new Map());
  const [atMatch, setAtMatch] = useState<number | null>(null);
  const failed = hasFailed && state.isComplete;
  if (failed && failing === null) setFailing(findFailingLine(log));

  const lookAt = [chosen?.from, failing, failed || wasWatched ? state.lines : null];
  const lookKey = lookAt.join();
  const folded = useMemo(() => {
    const looked = lookKey.split(",").filter(Boolean).map(Number);
    const first = initiallyFolded(groups, looked);
    for (const [line, isFolded] of toggled) isFolded ? first.add(line) : first.delete(line);
    return first;
  }, [groups, lookKey, toggled]);
  const rows = useMemo(() => new VisibleRows(groups, folded, state.lines), [groups, folded, state.lines]);

  const found = useQuery({
    queryKey: ["log", source, q],
    queryFn: () => searchLog(source, q, MATCHES_MAX),
    enabled: q !== "",
    refetchInterval: state.isComplete ? false : SEARCH_AGAIN_MS,
  });
  const matches = q === "" ? [] : (found.data?.entries ?? []);

  const rowsNow = useRef(rows);
  rowsNow.current = rows;
  const fold = useCallback(
    (line: number) => {
      setFollowing(false);
      setToggled(was => new Map(was).set(line, !folded.has(line)));
    },
    [folded],
  );
  const areAllFolded = groups.length > 0 && groups.every(group => folded.has(group.line));
  const foldAll = () => {
    setFollowing(false);
    setToggled(new Map(groups.map(group => [group.line, !areAllFolded])));
  };
  const goTo = useCallback(
    (line: number) => {
      setFollowing(false);
      frame.current?.scrollIntoView({ block: "nearest" });
      const group = findGroup(groups, line);
      if (group && folded.has(group.line) && group.line !== line)
        setToggled(was => new Map(was).set(group.line, false));
      // Wait until the unfolded rows are rendered.
      requestAnimationFrame(() =>
        requestAnimationFrame(() =>
          handle.current?.scrollToIndex({ index: rowsNow.current.rowOf(line), align: "center" }),
        ),
      );
    },
    [groups, folded],
  );
  // Scroll to the failure if the log was followed.
  useEffect(() => {
    if (failing !== null && isFollowing) goTo(failing);
  }, [failing, isFollowing, goTo]);

  const goToNow = useRef(goTo);
  goToNow.current = goTo;
  useScrollToLines(frame, jump, goToNow);

  const selectRange = (range: LineRange) => onView({ ...view, lines: formatRange(range) });
  const chosenNow = useRef(chosen);
  chosenNow.current = chosen;
  const chooseNow = useRef(selectRange);
  chooseNow.current = selectRange;
  const onNumber = useCallback((line: number, isExtending: boolean) => {
    setFollowing(false);
    chooseNow.current(selectLine(chosenNow.current, line, isExtending));
  }, []);
  const stepMatch = (by: 1 | -1) => {
    if (matches.length === 0) return;
    const next = atMatch === null ? (by === 1 ? 0 : matches.length - 1) : atMatch + by;
    showMatch((next + matches.length) % matches.length);
  };
  const showMatch = (at: number) => {
    const line = matches[at]?.line;
    if (line === undefined) return;
    setAtMatch(at);
    selectRange({ from: line, to: line });
    goTo(line);
  };

  useShortcuts({
    f: full.toggle,
    w: () => setWrap(!wrap),
    z: foldAll,
    n: () => stepMatch(1),
    p: () => stepMatch(-1),
    e: () => failing !== null && goTo(failing),
    b: () => (state.isComplete ? goTo(state.lines) : setFollowing(true)),
  });

  const start = rows.rowOf(chosen?.from ?? failing ?? (state.isComplete ? 1 : state.lines));
  return (
    <div
      ref={frameRef}
      className={`${styles.frame} ${full.isFull ? styles.full : ""}`}
      data-log-lines={state.lines}
      data-log-complete={state.isComplete}
    >
      <Group className={styles.bar} gap="sm" justify="space-between">
        <LogSearch
          q={q}
          found={q === "" ? null : found.data ? matches.length : found.isError ? 0 : null}
          isComplete={found.data?.isComplete ?? true}
          current={atMatch}
          onStep={stepMatch}
          onSearch={text => {
            setAtMatch(null);
            onView({ ...view, q: text || undefined });
          }}
          onLine={text => {
            const range = parseRange(text);
            if (!range) return;
            selectRange(range);
            goTo(range.from);
          }}
        />
        <Group gap={4} wrap="nowrap">
          <Text size="xs" c="dimmed" className="tabular" mr={4} style={{ whiteSpace: "nowrap" }}>
            {state.lines.toLocaleString()} {state.lines === 1 ? "line" : "lines"}
            {state.isComplete ? "" : isFollowing ? ", following" : ", running"}
          </Text>
          <LogToolbar
            source={source}
            wrap={wrap}
            hasChosen={chosen !== null}
            hasGroups={groups.length > 0}
            areAllFolded={areAllFolded}
            isFull={full.isFull}
            onWrap={() => setWrap(!wrap)}
            onFoldAll={foldAll}
            onFull={full.toggle}
          />
        </Group>
      </Group>
      {matches.length > 0 && <SearchMatches entries={matches} q={q} current={atMatch} onGo={showMatch} />}
      {found.isError && <ProblemPanel error={found.error} retry={() => found.refetch()} compact />}
      <LogLines
        label={`Log of ${name}`}
        buffer={buffer}
        state={state}
        rows={rows}
        groups={groups}
        folded={folded}
        chosen={chosen}
        failing={failing}
        q={q}
        wrap={wrap}
        isFollowing={isFollowing}
        wasWatched={wasWatched}
        isFull={full.isFull}
        start={start}
        handle={handle}
        onFollow={setFollowing}
        onNumber={onNumber}
        onFold={fold}
      />
      <LogNotices state={state} retry={() => buffer.retry()} />
    </div>
  );
}

function findFailingLine({ buffer, state }: ReturnType<typeof useLog>): number | null {
  const entries = [];
  for (let line = Math.max(1, state.lines - 499); line <= state.lines; line++) {
    const entry = buffer.line(line);
    if (entry) entries.push(entry);
  }
  return detectFailingLine(entries);
}

function LogNotices({ state, retry }: { state: ReturnType<typeof useLog>["state"]; retry: () => void }) {
  return (
    <>
      {state.hasGap && (
        <Text className={styles.foot} size="xs" c="var(--berth-warn)">
          Part of this log is missing because the server could not write to disk.
        </Text>
      )}
      {state.error != null && <ProblemPanel error={state.error} retry={retry} compact />}
    </>
  );
}

function LogSkeleton() {
  return (
    <Stack className={styles.frame} gap={8} p="md" aria-busy="true">
      {[70, 45, 60, 30, 52].map(width => (
        <Skeleton key={width} height={10} width={`${width}%`} />
      ))}
    </Stack>
  );
}
