import { Badge, Button, Card, Group, Stack, Text } from "@mantine/core";
import type { Runner } from "@/api/types";
import { useOrg } from "@/data/me";
import { formatExposed, formatIsolation, formatRunnerName } from "@/format/runner";
import { RUNNER_STATUS_STYLE } from "@/theme/status";
import { Link } from "@/ui/Link";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";

type Props = { runner: Runner; mayWrite: boolean; remove: () => void };

export function RunnerCard({ runner, mayWrite, remove }: Props) {
  const org = useOrg();
  const name = formatRunnerName(runner);
  return (
    <Card component="article" aria-label={name}>
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={6} style={{ flex: "1 1 16rem", minWidth: 0 }}>
          <Group gap="sm">
            <Text fw={600} className="wrap">
              {name}
            </Text>
            {runner.isEmbedded && runner.name && (
              <Badge color="gray" c="inherit">
                built-in
              </Badge>
            )}
          </Group>
          <Text size="sm" c="dimmed" component="div" className="wrap">
            <RunnerFacts runner={runner} />
          </Text>
          {runner.labels.length > 0 && (
            <Group gap={6} aria-label="Labels" role="group">
              {runner.labels.map(label => (
                <Badge key={label} color="gray" c="inherit">
                  {label}
                </Badge>
              ))}
            </Group>
          )}
          {runner.running.map(each => (
            <Text key={each.stepId} size="sm" component="div">
              Running{" "}
              <Link
                to="/o/$org/deployments/$deploymentId"
                params={{ org, deploymentId: each.deploymentId }}
                search={{ step: each.stepId }}
                inherit
              >
                {each.step}
              </Link>
              , started <RelativeTime at={each.since} />
            </Text>
          ))}
        </Stack>
        <Group gap="xs">
          <StatusBadge status={RUNNER_STATUS_STYLE[runner.state]} />
          {mayWrite && !runner.isEmbedded && (
            <Button size="xs" variant="default" onClick={remove} aria-label={`Remove ${name}`}>
              Remove
            </Button>
          )}
        </Group>
      </Group>
    </Card>
  );
}

function RunnerFacts({ runner }: { runner: Runner }) {
  if (runner.state === "pending")
    return runner.tokenExpiresAt ? (
      <>
        Registration token not used yet, expires <RelativeTime at={runner.tokenExpiresAt} />
      </>
    ) : (
      <>Registration token not used yet</>
    );
  const slots =
    runner.slots == null ? null : `${runner.slots} concurrent ${runner.slots === 1 ? "step" : "steps"}`;
  const isolation = [formatIsolation(runner.isolation), formatExposed(runner.exposed)].filter(Boolean);
  return (
    <>
      {[runner.version && `berth ${runner.version}`, slots].filter(Boolean).join(", ")}
      {runner.lastSeenAt && (
        <>
          {(runner.version || slots) && ", "}
          last seen <RelativeTime at={runner.lastSeenAt} />
        </>
      )}
      {isolation.length > 0 && <div>Steps are {isolation.join(", ")}</div>}
    </>
  );
}
