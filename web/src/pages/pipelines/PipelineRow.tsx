import { Skeleton, Text } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { memo } from "react";
import type { Pipeline, Stage } from "@/api/types";
import { PAUSED } from "@/theme/status";
import { Link } from "@/ui/Link";
import { Status } from "@/ui/Status";
import { shortCommit } from "@/words/commit";
import styles from "./pipelines.module.css";

export const ROW_PX = 68;
const STAGES_SHOWN_MAX = 4;

/** One pipeline: its name, and what is in which stage. */
export const PipelineRow = memo(function PipelineRow({ org, pipeline }: Props) {
  if (!pipeline)
    return (
      <div className={styles.row} style={{ height: ROW_PX }}>
        <div className={styles.card}>
          <Skeleton height={12} width="30%" />
        </div>
      </div>
    );
  const isPaused = pipeline.status === "stopped" || pipeline.stages.some(stage => stage.paused);
  const more = pipeline.stages.length - STAGES_SHOWN_MAX;
  return (
    <div className={styles.row} style={{ height: ROW_PX }}>
      <Link
        to="/o/$org/pipelines/$pipelineId"
        params={{ org, pipelineId: pipeline.slug }}
        className={styles.card}
        underline="never"
        preload={false}
      >
        <span className={styles.name}>
          <Text span fw={600} className="clamp" c="var(--mantine-color-text)">
            {pipeline.name}
          </Text>
          <Text span size="xs" c="dimmed" className="clamp">
            {pipeline.slug}
            {pipeline.environments.length > 0 && `, ${environmentWords(pipeline.environments.length)}`}
          </Text>
        </span>
        <span className={styles.stages}>
          {pipeline.stages.slice(0, STAGES_SHOWN_MAX).map(stage => (
            <StageChip key={stage.name} stage={stage} />
          ))}
          {more > 0 && (
            <Text span size="xs" c="dimmed">
              and {more} more
            </Text>
          )}
        </span>
        {isPaused && <Status look={PAUSED} />}
        {pipeline.retiredAt && (
          <Text span size="xs" c="dimmed">
            retired
          </Text>
        )}
        <IconChevronRight size={16} aria-hidden style={{ flex: "none" }} />
      </Link>
    </div>
  );
});

type Props = { org: string; pipeline: Pipeline | undefined };

function StageChip({ stage }: { stage: Stage }) {
  return (
    <span className={styles.chip} data-empty={stage.current ? undefined : true}>
      <Text span size="xs" c="dimmed" className="clamp">
        {stage.name}
      </Text>
      <span className="commit">{stage.current ? shortCommit(stage.current.commitId) : "nothing yet"}</span>
    </span>
  );
}

function environmentWords(count: number): string {
  return count === 1 ? "1 shared environment" : `${count} shared environments`;
}
