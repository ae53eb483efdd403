import { Card, Group, Stack, Text, Title } from "@mantine/core";
import { IconAnchor, IconThumbUp, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Deployed } from "@/api/types";
import { pendingApprovalsQuery } from "@/data/approvals";
import { mayDecideApproval } from "@/data/deploymentAccess";
import { useAccess, useMe, useOrg, usePermissionSomewhere } from "@/data/me";
import { CommitId } from "@/ui/CommitId";
import { Link } from "@/ui/Link";
import { RelativeTime, SinceTime } from "@/ui/RelativeTime";
import { TakeoverText } from "@/ui/TakeoverText";
import { listFailures } from "./failures";

const SHOWN_MAX = 5;

/** Failed deployments, pending approvals, announced takeovers and environments held by the user. */
export function AttentionCard({ pipelines }: { pipelines: Deployed[] }) {
  const org = useOrg();
  const me = useMe();
  const access = useAccess();
  const mayRead = usePermissionSomewhere("approvals:read");
  const approvals = useQuery({ ...pendingApprovalsQuery(org), enabled: mayRead }).data?.data ?? [];
  const asked = approvals.filter(each => mayDecideApproval(access, each, pipelines)).slice(0, SHOWN_MAX);
  const held = pipelines.flatMap(pipeline =>
    pipeline.environments.filter(each => each.holder?.id === me.user.id).map(each => ({ pipeline, each })),
  );
  const failures = listFailures(pipelines).slice(0, SHOWN_MAX);
  if (failures.length === 0 && asked.length === 0 && held.length === 0) return null;
  const nameOf = (id: string) => pipelines.find(each => each.pipelineId === id)?.name ?? "pipeline";
  return (
    <Card component="section" aria-label="Needs your attention">
      <Title order={2} mb="sm">
        Needs your attention
      </Title>
      <Stack gap="xs">
        {failures.map(({ failed, name }) => (
          <Group key={failed.deploymentId} gap="xs" wrap="nowrap" align="flex-start">
            <IconX size={18} color="var(--berth-bad)" aria-hidden style={{ flex: "none", marginTop: 3 }} />
            <Text>
              <Link
                to="/o/$org/deployments/$deploymentId"
                params={{ org, deploymentId: failed.deploymentId }}
                c="var(--berth-bad)"
              >
                {name} #{failed.number} failed
              </Link>{" "}
              <Text span c="dimmed">
                <CommitId id={failed.commitId} /> by {failed.by.name}, <RelativeTime at={failed.at} />
              </Text>
            </Text>
          </Group>
        ))}
        {asked.map(each => (
          <Group key={each.id} gap="xs" wrap="nowrap" align="flex-start">
            <IconThumbUp
              size={18}
              color="var(--berth-warn)"
              aria-hidden
              style={{ flex: "none", marginTop: 3 }}
            />
            <Text>
              <Link to="/o/$org/approvals" params={{ org }} search={{ approval: each.id }}>
                Review {nameOf(each.pipelineId)} → {each.stage}
              </Link>{" "}
              <Text span c="dimmed">
                {each.commitId && <CommitId id={each.commitId} />}, requested{" "}
                <RelativeTime at={each.requestedAt} />
              </Text>
            </Text>
          </Group>
        ))}
        {held.map(({ pipeline, each }) => (
          <Group key={each.environmentId} gap="xs" wrap="nowrap" align="flex-start">
            <IconAnchor
              size={18}
              color="var(--berth-busy)"
              aria-hidden
              style={{ flex: "none", marginTop: 3 }}
            />
            <Text>
              <Link
                to="/o/$org/environments/$pipelineId/$envName"
                params={{ org, pipelineId: pipeline.slug, envName: each.envName }}
              >
                You hold {each.envName}
              </Link>{" "}
              <Text span c="dimmed">
                in {pipeline.name}
                {each.heldSince && (
                  <>
                    {" "}
                    <SinceTime at={each.heldSince} />
                  </>
                )}
              </Text>
              {each.takeover && (
                <Text span c="var(--berth-warn)" fw={600} className="wrap">
                  {" · "}
                  <TakeoverText takeover={each.takeover} />
                </Text>
              )}
            </Text>
          </Group>
        ))}
      </Stack>
    </Card>
  );
}
