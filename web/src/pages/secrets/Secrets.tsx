import { Badge, Button, Card, Group, Stack, Table, Text } from "@mantine/core";
import { IconAlertTriangle, IconPlus, IconShieldLock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Secret } from "@/api/types";
import { useMay, useOrg } from "@/data/me";
import { usePipelineNames } from "@/data/pipelines";
import { secretsQuery } from "@/data/secrets";
import { Snippet } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { When } from "@/ui/When";
import { Cell, Rows } from "../settings/Rows";
import { ChangeSecret, DeleteSecret } from "./ChangeSecret";
import { NewSecret } from "./NewSecret";

type Doing = { what: "change" | "delete"; secret: Secret } | { what: "create" } | null;

const USE = ["env: { KEY: ", '"$', '{{ secrets.DEPLOY_KEY }}" }'].join("");

/** Names, scopes and use of secrets; never a value. */
export function Secrets() {
  const org = useOrg();
  const mayWrite = useMay("secrets:write");
  const secrets = useQuery(secretsQuery(org));
  const [doing, setDoing] = useState<Doing>(null);
  const close = () => setDoing(null);
  return (
    <Page
      title="Secrets"
      lead="A value goes in and never comes out: only steps that name it see it, and it is masked in their logs."
      actions={
        mayWrite && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setDoing({ what: "create" })}>
            Create a secret
          </Button>
        )
      }
    >
      <Query of={secrets}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty icon={IconShieldLock} title="No secrets yet">
              <Stack gap="sm" w="100%">
                <div>Create one, and name it where a step needs it:</div>
                <Snippet label="How a step gets a secret" text={USE} />
              </Stack>
            </Empty>
          ) : (
            <Card padding={0}>
              <Rows of={["Name", "For", "Used by", "Value"]}>
                {data.map(each => (
                  <Row
                    key={each.id}
                    secret={each}
                    mayWrite={mayWrite}
                    act={what => setDoing({ what, secret: each })}
                  />
                ))}
              </Rows>
            </Card>
          )
        }
      </Query>
      {doing?.what === "create" && <NewSecret onClose={close} />}
      {doing?.what === "change" && <ChangeSecret secret={doing.secret} onClose={close} />}
      {doing?.what === "delete" && <DeleteSecret secret={doing.secret} onClose={close} />}
    </Page>
  );
}

type RowProps = { secret: Secret; mayWrite: boolean; act: (what: "change" | "delete") => void };

function Row({ secret, mayWrite, act }: RowProps) {
  const org = useOrg();
  const { scope } = secret;
  const pipeline = usePipelineNames(org, [scope.pipelineId]).get(scope.pipelineId ?? "") ?? scope.pipelineId;
  const reach =
    scope.type === "organization" ? "everything" : [pipeline, scope.stage].filter(Boolean).join(" → ");
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
      <Cell of="For">{reach}</Cell>
      <Cell of="Used by">
        {secret.usedBy.length === 0 ? (
          <Text inherit c="dimmed">
            nothing
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
      <Cell of="Value">
        version {secret.version}, <When at={secret.updatedAt} />
      </Cell>
      <Table.Td>
        {mayWrite && (
          <Group justify="flex-end" gap="xs" wrap="nowrap">
            <Button
              size="xs"
              variant="default"
              onClick={() => act("change")}
              aria-label={`New value of ${secret.name}`}
            >
              New value
            </Button>
            <Button
              size="xs"
              variant="default"
              onClick={() => act("delete")}
              aria-label={`Delete ${secret.name}`}
            >
              Delete
            </Button>
          </Group>
        )}
      </Table.Td>
    </Table.Tr>
  );
}
