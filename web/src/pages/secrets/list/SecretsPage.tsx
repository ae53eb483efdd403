import { Badge, Button, Group, Stack, Table, Text } from "@mantine/core";
import { IconAlertTriangle, IconShieldLock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Secret } from "@/api/types";
import { useOrg, usePermission, usePermissionSomewhere } from "@/data/me";
import { pipelineTarget } from "@/data/permissions";
import { pipelineQuery } from "@/data/pipelines";
import { secretsQuery } from "@/data/secrets";
import { Snippet } from "@/ui/Copy";
import { EmptyState } from "@/ui/EmptyState";
import { ActionsCell, LabelledCell } from "@/ui/lists/ResponsiveTable";
import { SettingsList } from "@/ui/lists/SettingsList";
import { RelativeTime } from "@/ui/RelativeTime";
import { NewSecretDialog } from "../dialogs/NewSecretDialog";
import { DeleteSecretDialog, UpdateSecretDialog } from "../dialogs/secretDialogs";

type SecretDialog = { of: "change" | "delete"; secret: Secret } | { of: "create" };

const USAGE_YAML = ["env: { KEY: ", '"$', '{{ secrets.DEPLOY_KEY }}" }'].join("");

/** Secrets with scope, usage and version; never their values. */
export function SecretsPage() {
  const mayCreate = usePermissionSomewhere("secrets:write");
  const secrets = useQuery(secretsQuery(useOrg()));
  const [dialog, setDialog] = useState<SecretDialog | null>(null);
  const close = () => setDialog(null);
  return (
    <SettingsList
      title="Secrets"
      lead="Values are write-only. Only steps that reference a secret receive it, and it is masked in their logs."
      add={mayCreate && { label: "Create secret", onClick: () => setDialog({ of: "create" }) }}
      query={secrets}
      columns={["Name", "Scope", "Used by", "Version"]}
      row={secret => <SecretRow secret={secret} act={of => setDialog({ of, secret })} />}
      empty={
        <EmptyState icon={IconShieldLock} title="No secrets yet">
          <Stack gap="sm" w="100%">
            <div>Create a secret and reference it in a step:</div>
            <Snippet label="Example" text={USAGE_YAML} />
          </Stack>
        </EmptyState>
      }
    >
      {dialog?.of === "create" && <NewSecretDialog onClose={close} />}
      {dialog?.of === "change" && <UpdateSecretDialog secret={dialog.secret} onClose={close} />}
      {dialog?.of === "delete" && <DeleteSecretDialog secret={dialog.secret} onClose={close} />}
    </SettingsList>
  );
}

type RowProps = { secret: Secret; act: (of: "change" | "delete") => void };

function SecretRow({ secret, act }: RowProps) {
  const org = useOrg();
  const { scope } = secret;
  const id = scope.pipelineId ?? "";
  const found = useQuery({ ...pipelineQuery(org, id), enabled: id !== "" }).data;
  const pipeline = found?.name ?? id;
  const mayWrite = usePermission("secrets:write", pipelineTarget(found?.slug));
  const scopeLabel =
    scope.type === "organization" ? "All pipelines" : [pipeline, scope.stage].filter(Boolean).join(" → ");
  return (
    <Table.Tr>
      <Table.Td>
        <Text fw={550} ff="monospace" size="sm">
          {secret.name}
        </Text>
        {secret.description && (
          <Text size="sm" c="dimmed">
            {secret.description}
          </Text>
        )}
        {secret.warnings.map(warning => (
          <Group key={warning.code} gap={4} c="var(--berth-warn)" wrap="nowrap">
            <IconAlertTriangle size={14} aria-hidden />
            <Text size="sm">{warning.detail}</Text>
          </Group>
        ))}
      </Table.Td>
      <LabelledCell of="Scope">{scopeLabel}</LabelledCell>
      <LabelledCell of="Used by">
        {secret.usedBy.length === 0 ? (
          <Text inherit c="dimmed">
            Not used
          </Text>
        ) : (
          <Group gap={4}>
            {secret.usedBy.map(each => (
              <Badge key={each.pipelineId} color="gray" c="inherit">
                {each.slug}
              </Badge>
            ))}
          </Group>
        )}
      </LabelledCell>
      <LabelledCell of="Version">
        {secret.version}, updated <RelativeTime at={secret.updatedAt} />
      </LabelledCell>
      <ActionsCell>
        {mayWrite && (
          <>
            <Button
              size="xs"
              variant="default"
              onClick={() => act("change")}
              aria-label={`Update ${secret.name}`}
            >
              Update
            </Button>
            <Button
              size="xs"
              variant="default"
              onClick={() => act("delete")}
              aria-label={`Delete ${secret.name}`}
            >
              Delete
            </Button>
          </>
        )}
      </ActionsCell>
    </Table.Tr>
  );
}
