import { memo } from "react";
import type { Pipeline, Stage } from "@/api/types";
import { type Access, listReadableEnvironments } from "@/data/permissions";
import { formatCommit } from "@/format/commit";
import { PAUSED_STATUS_STYLE, RUN_STATUS_STYLE } from "@/theme/status";
import { StatusBadge } from "@/ui/StatusBadge";
import styles from "./pipelines.module.css";

export const ROW_PX = 68;
const STAGES_SHOWN_MAX = 4;

/**
 * One pipeline with the current commit of each stage. Uses plain elements: fast scrolling renders thirty rows per
 * frame, and components for text and links take four times as long.
 */
export const PipelineRow = memo(function PipelineRow({ href, pipeline, access }: Props) {
  if (!pipeline) return <BlankRow />;
  const isPaused = pipeline.status === "stopped" || pipeline.stages.some(stage => stage.paused);
  const hasFailed = pipeline.stages.some(stage => stage.failed);
  const environmentCount = listReadableEnvironments(access, pipeline).length;
  const more = pipeline.stages.length - STAGES_SHOWN_MAX;
  return (
    <div className={styles.row} style={{ height: ROW_PX }}>
      <a href={href} className={styles.card}>
        <span className={styles.name}>
          <span className={styles.title}>{pipeline.name}</span>
          <span className={styles.quiet}>
            {pipeline.slug}
            {environmentCount > 0 && `, ${formatEnvironmentCount(environmentCount)}`}
          </span>
        </span>
        <span className={styles.stages}>
          {pipeline.stages.slice(0, STAGES_SHOWN_MAX).map(stage => (
            <StageChip key={stage.name} stage={stage} />
          ))}
          {more > 0 && <span className={styles.quiet}>and {more} more</span>}
        </span>
        {hasFailed && <StatusBadge status={RUN_STATUS_STYLE.failed} />}
        {isPaused && <StatusBadge status={PAUSED_STATUS_STYLE} />}
        {pipeline.retiredAt && <span className={styles.quiet}>retired</span>}
      </a>
    </div>
  );
});

/** Placeholder of a row that is not loaded, or scrolled past too fast to read. */
export function BlankRow() {
  return <div className={styles.blank} style={{ height: ROW_PX }} aria-hidden />;
}

type Props = { href: string; pipeline: Pipeline | undefined; access: Access };

function StageChip({ stage }: { stage: Stage }) {
  return (
    <span
      className={styles.chip}
      data-empty={stage.current ? undefined : true}
      data-failed={stage.failed ? true : undefined}
      data-behind={stage.current?.behindBy ? true : undefined}
    >
      <span className={styles.quiet}>
        {stage.name}
        {stage.failed
          ? `: #${stage.failed.number} failed`
          : stage.current?.behindBy
            ? `: ${stage.current.behindBy} behind`
            : ""}
      </span>
      <StageCommit current={stage.current} />
    </span>
  );
}

function StageCommit({ current }: Pick<Stage, "current">) {
  if (!current) return <span className={styles.quiet}>not deployed</span>;
  if (!current.commit) return <span className="commit">{formatCommit(current.commitId)}</span>;
  return <span title={current.commit.commitId}>{current.commit.title}</span>;
}

function formatEnvironmentCount(count: number): string {
  return count === 1 ? "1 shared environment" : `${count} shared environments`;
}
