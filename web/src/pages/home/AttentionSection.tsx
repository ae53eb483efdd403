import { Button } from "@mantine/core";
import { IconBolt, IconClock, IconThumbUp, IconUsers, type TablerIcon } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Deployed } from "@/api/types";
import { pendingApprovalsQuery } from "@/data/approvals";
import { useNow } from "@/data/clock";
import type { EnvironmentKey } from "@/data/environments";
import { useAccess, useMe, useOrg, usePermissionSomewhere } from "@/data/me";
import { CommitLine } from "@/ui/commits/CommitLine";
import { Link, LinkButton } from "@/ui/Link";
import { RelativeTime, UntilTime } from "@/ui/RelativeTime";
import { TakeoverText } from "@/ui/TakeoverText";
import { type AttentionItem, listAttention } from "./attention";
import { HomeSection } from "./HomeSection";
import classes from "./home.module.css";
import { useOpenDialog } from "./OpenDialog";

const SHOWN_MAX = 8;

/** What waits for the current user, with the next action in each row. */
export function AttentionSection({ pipelines }: { pipelines: Deployed[] }) {
  const org = useOrg();
  const me = useMe().user.id;
  const access = useAccess();
  const mayRead = usePermissionSomewhere("approvals:read");
  const approvals = useQuery({ ...pendingApprovalsQuery(org), enabled: mayRead }).data?.data ?? [];
  const items = listAttention(pipelines, approvals, access, me, useNow());
  if (items.length === 0) return null;
  const more = items.length - SHOWN_MAX;
  return (
    <HomeSection title="Needs you" count={items.length} tone="warn">
      {items.slice(0, SHOWN_MAX).map(each => (
        <AttentionRow key={each.id} org={org} item={each} />
      ))}
      {more > 0 && (
        <div className={classes.more}>
          and {more} more: see{" "}
          <Link to="/o/$org/approvals" params={{ org }}>
            Approvals
          </Link>
        </div>
      )}
    </HomeSection>
  );
}

const ICONS: Record<AttentionItem["kind"], TablerIcon> = {
  approval: IconThumbUp,
  takeover: IconBolt,
  expiring: IconClock,
  queue: IconUsers,
};

function AttentionRow({ org, item }: { org: string; item: AttentionItem }) {
  const Icon = ICONS[item.kind];
  return (
    <div className={classes.item}>
      <Icon size={16} color="var(--berth-warn)" aria-hidden className={classes.icon} />
      {item.kind === "approval" ? (
        <ApprovalContent org={org} item={item} />
      ) : (
        <SessionContent org={org} item={item} />
      )}
    </div>
  );
}

type Of<Kind> = { org: string; item: Extract<AttentionItem, { kind: Kind }> };

function ApprovalContent({ org, item: { approval, pipeline } }: Of<"approval">) {
  const open = useOpenDialog();
  const title = `${pipeline?.name ?? "Pipeline"} → ${approval.stage}`;
  return (
    <>
      <span className={classes.fact}>
        <Link
          to="/o/$org/deployments/$deploymentId"
          params={{ org, deploymentId: approval.deploymentId }}
          className={classes.subject}
        >
          {title}
        </Link>
        {approval.commitId && (
          <CommitLine
            commitId={approval.commitId}
            commit={approval.commit}
            compareUrl={approval.compareUrl}
          />
        )}
        <span className={classes.quiet}>
          requested <RelativeTime at={approval.requestedAt} />
          {approval.required > 1 && `, ${approval.given} of ${approval.required} approvals`}
        </span>
      </span>
      <Actions>
        <LinkButton
          to="/o/$org/approvals"
          params={{ org }}
          search={{ approval: approval.id }}
          size="compact-sm"
          variant="default"
          aria-label={`Review ${title}`}
        >
          Review
        </LinkButton>
        <Button
          size="compact-sm"
          aria-label={`Approve ${title}`}
          onClick={() => open({ kind: "approval", approval, title, choice: "approve" })}
        >
          Approve
        </Button>
      </Actions>
    </>
  );
}

function SessionContent({ org, item }: Of<"takeover" | "expiring" | "queue">) {
  const { pipeline, environment } = item;
  const open = useOpenDialog();
  const where: EnvironmentKey = { org, pipelineId: pipeline.slug, envName: environment.envName };
  const { takeover, heldUntil, queueLength, envName } = environment;
  return (
    <>
      <span className={classes.fact}>
        <Link to="/o/$org/environments/$pipelineId/$envName" params={where} className={classes.subject}>
          {pipeline.name} · {envName}
        </Link>
        <span className="wrap">
          {item.kind === "takeover" && takeover && <TakeoverText takeover={takeover} />}
          {item.kind === "expiring" && heldUntil && (
            <>
              You hold it <UntilTime at={heldUntil} />
            </>
          )}
          {item.kind === "queue" &&
            `${queueLength === 1 ? "1 person waits" : `${queueLength} people wait`} for it while you hold it`}
        </span>
      </span>
      <Actions>
        {item.kind === "expiring" && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`Extend ${envName}`}
            onClick={() => open({ kind: "environment", action: "extend", where })}
          >
            Extend
          </Button>
        )}
        <Button
          size="compact-sm"
          variant={item.kind === "takeover" ? "filled" : "default"}
          aria-label={`Release ${envName}`}
          onClick={() => open({ kind: "environment", action: "release", where })}
        >
          Release
        </Button>
      </Actions>
    </>
  );
}

function Actions({ children }: { children: ReactNode }) {
  return <span className={classes.actions}>{children}</span>;
}
