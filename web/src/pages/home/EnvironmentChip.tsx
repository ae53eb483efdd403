import { Text } from "@mantine/core";
import { Link as RouterLink } from "@tanstack/react-router";
import type { DeployedEnvironment } from "@/api/types";
import { useMe, useOrg } from "@/data/me";
import { formatCommit } from "@/format/commit";
import { formatHolder } from "@/format/holder";
import { LOCK_STATUS_STYLE, RUN_STATUS_STYLE } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { SinceTime } from "@/ui/RelativeTime";
import { StatusText } from "@/ui/StatusBadge";
import { TakeoverText } from "@/ui/TakeoverText";
import classes from "./home.module.css";

type Props = { pipelineId: string; environment: DeployedEnvironment };

/** One shared environment: free, or its holder, start and reason. */
export function EnvironmentChip({ pipelineId, environment }: Props) {
  const org = useOrg();
  const me = useMe();
  const {
    holder,
    contact,
    heldSince,
    context,
    queueLength,
    deploying,
    current,
    envName,
    pullRequest,
    takeover,
    failed,
  } = environment;
  const style = holder
    ? holder.id === me.user.id
      ? LOCK_STATUS_STYLE.mine
      : LOCK_STATUS_STYLE.held
    : LOCK_STATUS_STYLE.free;
  return (
    <RouterLink
      to="/o/$org/environments/$pipelineId/$envName"
      params={{ org, pipelineId, envName }}
      className={classes.environment}
    >
      <Text span fw={600}>
        {envName}
      </Text>
      <Text span size="sm">
        <StatusText
          status={style}
          label={holder ? `held by ${formatHolder({ holder, contact }, me.user.id)}` : "free"}
        />
      </Text>
      <Text span size="sm" c="dimmed">
        {holder && heldSince ? (
          <>
            <SinceTime at={heldSince} />
            {queueLength > 0 && `, ${queueLength} in queue`}
          </>
        ) : current ? (
          <>
            Deployed: <CommitId id={current.commitId} />
          </>
        ) : (
          "Nothing deployed yet"
        )}
      </Text>
      {takeover && (
        <Text span size="sm" c="var(--berth-warn)" fw={600} className="wrap">
          <TakeoverText takeover={takeover} />
        </Text>
      )}
      {failed && (
        <Text span size="sm" className="wrap">
          <StatusText
            status={RUN_STATUS_STYLE.failed}
            label={`#${failed.number} of ${formatCommit(failed.commitId)} failed`}
          />
        </Text>
      )}
      {pullRequest && (
        <Text span size="sm" className="clamp">
          for #{pullRequest.number} {pullRequest.title}
        </Text>
      )}
      {context && (
        <Text span size="sm" className="clamp">
          “{context}”
        </Text>
      )}
      {deploying && (
        <Text span size="sm" c="dimmed" className="clamp">
          Deploying <CommitId id={deploying} />
        </Text>
      )}
    </RouterLink>
  );
}
