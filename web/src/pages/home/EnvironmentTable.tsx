import { ActionIcon, Button } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { memo } from "react";
import { type EnvironmentKey, queueQuery, sitesQuery } from "@/data/environments";
import { useAccess, useMe, useOrg } from "@/data/me";
import { environmentTarget, may } from "@/data/permissions";
import { formatHolder } from "@/format/holder";
import { LOCK_STATUS_STYLE } from "@/theme/status";
import { CommitLine } from "@/ui/commits/CommitLine";
import { DeploymentState } from "@/ui/DeploymentState";
import { Link } from "@/ui/Link";
import { PersonAvatar } from "@/ui/PersonAvatar";
import { SinceTime, UntilTime } from "@/ui/RelativeTime";
import { StatusText } from "@/ui/StatusBadge";
import { TakeoverText } from "@/ui/TakeoverText";
import type { EnvironmentAction } from "../environments/EnvironmentActions";
import type { Density } from "./density";
import type { EnvironmentEntry } from "./filterDeployed";
import { HomeSection } from "./HomeSection";
import classes from "./home.module.css";
import { useOpenDialog } from "./OpenDialog";
import { RowList } from "./RowList";

/** All shared environments: holder, reason, commit and queue. */
export function EnvironmentTable({ rows, density }: { rows: EnvironmentEntry[]; density: Density }) {
  if (rows.length === 0) return null;
  return (
    <HomeSection title="Environments" id="environments" count={rows.length}>
      <div className={classes.table} data-density={density}>
        <RowList label="Environments" items={rows} keyOf={each => each.environment.environmentId}>
          {each => <EnvironmentRow {...each} />}
        </RowList>
      </div>
    </HomeSection>
  );
}

/** Memoized: the virtual list renders all rows in view again with each scrolled row. */
const EnvironmentRow = memo(function EnvironmentRow({ pipeline, environment }: EnvironmentEntry) {
  const org = useOrg();
  const where: EnvironmentKey = { org, pipelineId: pipeline.slug, envName: environment.envName };
  const { envName, context, pullRequest, takeover, queueLength } = environment;
  return (
    // biome-ignore lint/a11y/useSemanticElements: see RowList
    <div className={classes.environment} role="listitem" aria-label={`${pipeline.name} ${envName}`}>
      <span className={classes.place}>
        <Link
          to="/o/$org/environments/$pipelineId/$envName"
          params={where}
          className={classes.name}
          c="inherit"
          underline="hover"
        >
          {envName}
        </Link>
        <span className={classes.quiet}>{pipeline.name}</span>
      </span>
      <span className={classes.holder}>
        <Holder environment={environment} />
        {context && <span className={classes.quote} title={context}>{`“${context}”`}</span>}
        {pullRequest && (
          <span className={classes.quote}>
            for #{pullRequest.number} {pullRequest.title}
          </span>
        )}
        {queueLength > 0 && <span className={classes.queue}>{queueLength} in queue</span>}
        {takeover && (
          <span className={classes.warning}>
            <TakeoverText takeover={takeover} />
          </span>
        )}
      </span>
      <Runs environment={environment} />
      <EnvironmentRowActions where={where} environment={environment} />
    </div>
  );
});

type Of = Pick<EnvironmentEntry, "environment">;

function Holder({ environment: { holder, contact, heldSince, heldUntil } }: Of) {
  const me = useMe().user.id;
  if (!holder) return <StatusText status={LOCK_STATUS_STYLE.free} />;
  return (
    <span className={classes.person}>
      <PersonAvatar name={holder.name} size={20} />
      <span className={classes.who}>
        {holder.id === me ? "You" : formatHolder({ holder, contact }, me)}{" "}
        <span className={classes.quiet}>
          {heldUntil ? <UntilTime at={heldUntil} /> : heldSince && <SinceTime at={heldSince} />}
        </span>
      </span>
    </span>
  );
}

/** What runs in the environment, what is being deployed, and what failed. */
function Runs({ environment }: Of) {
  const { current, deploying, failed } = environment;
  return (
    <span className={classes.runs}>
      {current ? (
        <CommitLine
          commitId={current.commitId}
          commit={current.commit}
          deploymentId={current.deploymentId}
          at={current.at}
          isShort
        />
      ) : (
        !deploying && !failed && <span className={classes.quiet}>Nothing deployed yet</span>
      )}
      <DeploymentState environment={environment} />
    </span>
  );
}

type ActionsProps = Of & { where: EnvironmentKey };

function EnvironmentRowActions({ where, environment }: ActionsProps) {
  const me = useMe().user.id;
  const access = useAccess();
  const target = environmentTarget(where.pipelineId, where.envName);
  const { holder } = environment;
  const isMine = holder?.id === me;
  return (
    <span className={classes.actions}>
      <SiteLink where={where} isDeployed={environment.current !== null} />
      {may(access, "environments:claim", target) && (
        <>
          {!holder && <ActionButton where={where} action="claim" label="Claim" />}
          {isMine && (
            <>
              <ActionButton where={where} action="deploy" label="Deploy" />
              <ActionButton where={where} action="release" label="Release" />
            </>
          )}
          {holder && !isMine && (
            <>
              <JoinButton where={where} hasQueue={environment.queueLength > 0} />
              {may(access, "environments:force_claim", target) && (
                <ActionButton where={where} action="take-over" label="Take over" />
              )}
            </>
          )}
        </>
      )}
    </span>
  );
}

type ButtonProps = { where: EnvironmentKey; action: EnvironmentAction; label: string };

function ActionButton({ where, action, label }: ButtonProps) {
  const open = useOpenDialog();
  return (
    <Button
      size="compact-sm"
      variant="default"
      aria-label={`${label} ${where.envName}`}
      onClick={() => open({ kind: "environment", action, where })}
    >
      {label}
    </Button>
  );
}

/** Joins the queue; shows the position once joined. */
function JoinButton({ where, hasQueue }: { where: EnvironmentKey; hasQueue: boolean }) {
  const me = useMe().user.id;
  const queue = useQuery({ ...queueQuery(where), enabled: hasQueue });
  const mine = hasQueue ? queue.data?.find(each => each.holder.id === me) : undefined;
  if (mine?.position) return <span className={classes.quiet}>You are no. {mine.position}</span>;
  return <ActionButton where={where} action="queue" label="Join queue" />;
}

/** Opens the environment's site, if its definition names one. */
function SiteLink({ where, isDeployed }: { where: EnvironmentKey; isDeployed: boolean }) {
  const sites = useQuery({ ...sitesQuery(where.org, where.pipelineId), enabled: isDeployed }).data;
  const site = isDeployed ? sites?.[where.envName] : undefined;
  if (!site) return null;
  const label = `Open site of ${where.envName}`;
  return (
    <ActionIcon
      component="a"
      href={site}
      target="_blank"
      rel="noopener noreferrer"
      variant="subtle"
      color="gray"
      size={26}
      aria-label={label}
      title={label}
    >
      <IconExternalLink size={16} />
    </ActionIcon>
  );
}
