import { Alert, Badge, Card, Code, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconPuzzle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { StepRegistry } from "@/api/types";
import { useOrg, usePermission } from "@/data/me";
import { registriesQuery } from "@/data/registries";
import { REGISTRY_STATUS_STYLE } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { Snippet } from "@/ui/Copy";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";
import { SettingsList } from "@/ui/lists/SettingsList";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";
import { NewRegistryDialog } from "../dialogs/NewRegistryDialog";

const FIRST_COMMANDS = `berth registry new tools
cd tools && npm install
berth registry test --step greet --params '{"who": "world"}'
`;
const STEPS_SHOWN_MAX = 12;

export function CustomStepsPage() {
  const mayWrite = usePermission("registries:write");
  const registries = useQuery(registriesQuery(useOrg()));
  const [isAdding, setAdding] = useState(false);
  return (
    <SettingsList
      title="Custom steps"
      lead="Step types from your own Git repositories, available to all pipelines"
      add={mayWrite && { label: "Add custom steps", onClick: () => setAdding(true) }}
      query={registries}
      row={registry => <RegistryCard registry={registry} />}
      empty={
        <EmptyState icon={IconPuzzle} title="No custom steps yet">
          <Stack gap="sm" w="100%">
            <div>Create a repository from the template, push it and add it here:</div>
            <Snippet label="Commands" text={FIRST_COMMANDS} />
          </Stack>
        </EmptyState>
      }
    >
      {isAdding && <NewRegistryDialog onClose={() => setAdding(false)} />}
    </SettingsList>
  );
}

function RegistryCard({ registry }: { registry: StepRegistry }) {
  const org = useOrg();
  const { name, steps, usedBy, lastGood } = registry;
  return (
    <Card component="article" aria-label={name}>
      <Group justify="space-between" align="flex-start" gap="sm">
        <Stack gap={4} style={{ flex: "1 1 16rem", minWidth: 0 }}>
          <Link
            to="/o/$org/settings/custom-steps/$registryId"
            params={{ org, registryId: name }}
            fw={600}
            fz="lg"
          >
            {name}
          </Link>
          <Text size="sm" c="dimmed" className="wrap">
            {registry.url}
            {registry.ref && <> at {registry.ref}</>}
            {lastGood && (
              <>
                , <CommitId id={lastGood.commit} /> built <RelativeTime at={lastGood.builtAt} />
              </>
            )}
          </Text>
          <Group gap={6}>
            {steps.slice(0, STEPS_SHOWN_MAX).map(step => (
              <Code key={step.key}>
                {name}/{step.key}
              </Code>
            ))}
            {steps.length > STEPS_SHOWN_MAX && (
              <Text size="sm" c="dimmed">
                and {steps.length - STEPS_SHOWN_MAX} more
              </Text>
            )}
          </Group>
        </Stack>
        <Group gap="xs">
          {usedBy.length > 0 && (
            <Badge color="gray" c="inherit">
              Used by {usedBy.length} {usedBy.length === 1 ? "pipeline" : "pipelines"}
            </Badge>
          )}
          <StatusBadge status={REGISTRY_STATUS_STYLE[registry.status]} />
        </Group>
      </Group>
      {registry.error && (
        <Alert mt="sm" color="buoy" icon={<IconAlertTriangle />} title="The newest commit could not be built">
          <Text size="sm" className="wrap">
            {registry.error}
          </Text>
        </Alert>
      )}
    </Card>
  );
}
