import { Badge, Button, Group, Stack, Table, Text } from "@mantine/core";
import { IconAlertTriangle, IconShieldLock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Secret } from "@/api/types";
import { useMay, useOrg } from "@/data/me";
import { pipelineQuery } from "@/data/pipelines";
import { secretsQuery } from "@/data/secrets";
import { Snippet } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { ActionsCell, Cell } from "@/ui/lists/Rows";
import { SettingsList } from "@/ui/lists/SettingsList";
import { When } from "@/ui/When";
import { ChangeSecret, DeleteSecret } from "../dialogs/ChangeSecret";
import { NewSecret } from "../dialogs/NewSecret";

type Dialog = { of: "change" | "delete"; secret: Secret } | { of: "create" };

const USE = ["env: { KEY: ", '"$', '{{ secrets.DEPLOY_KEY }}" }'].join("");

/** Secrets with scope, usage and version; never their values. */
export function Secrets() {
  const mayWrite = useMay("secrets:write");
  const secrets = useQuery(secretsQuery(useOrg()));
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const close = () => setDialog(null);
  return (
    <SettingsList
      title="Secrets"
      lead="Values are write-only. Only steps that reference a secret receive it, and it is masked in their logs."
      add={mayWrite && { label: "Create secret", onClick: () => setDialog({ of: "create" }) }}
      query={secrets}
      columns={["Name", "Scope", "Used by", "Version"]}
      row={secret => <Row secret={secret} mayWrite={mayWrite} act={of => setDialog({ of, secret })} />}
      empty={
        <Empty icon={IconShieldLock} title="No secrets yet">
          <Stack gap="sm" w="100%">
            <div>Create a secret and reference it in a step:</div>
            <Snippet label="Example" text={USE} />
          </Stack>
        </Empty>
      }
    >
      {dialog?.of === "create" && <NewSecret onClose={close} />}
      {dialog?.of === "change" && <ChangeSecret secret={dialog.secret} onClose={close} />}
      {dialog?.of === "delete" && <DeleteSecret secret={dialog.secret} onClose={close} />}
    </SettingsList>
  );
}

type RowProps = { secret: Secret; mayWrite: boolean; act: (of: "change" | "delete") => void };

function Row({ secret, mayWrite, act }: RowProps) {
  const org = useOrg();
  const { scope } = secret;
  const id = scope.pipelineId ?? "";
  const pipeline = useQuery({ ...pipelineQuery(org, id), enabled: id !== "" }).data?.name ?? id;
  const reach =
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
      <Cell of="Scope">{reach}</Cell>
      <Cell of="Used by">
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
      </Cell>
      <Cell of="Version">
        {secret.version}, updated <When at={secret.updatedAt} />
      </Cell>
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
