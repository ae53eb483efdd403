import { Badge, Box, Card, Code, Group, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { StepRegistry, StepRegistryStep } from "@/api/types";
import { registryStepsQuery } from "@/data/registries";
import { formatStepYaml, listParams } from "@/format/schema";
import { Snippet } from "@/ui/Copy";
import { escapeBidi } from "@/ui/escape";
import { QueryResult } from "@/ui/QueryResult";

/** Steps of a registry: description, parameters and YAML. Texts come from the registry and are untrusted. */
export function RegistrySteps({ org, registry }: { org: string; registry: StepRegistry }) {
  const steps = useQuery({
    ...registryStepsQuery(org, registry.name),
    enabled: registry.lastGood != null,
  });
  if (!registry.lastGood) return null;
  return (
    <Stack component="section" aria-label="Steps" gap="sm">
      <Title order={2}>Steps</Title>
      <QueryResult of={steps}>
        {({ data }) =>
          data.length === 0 ? (
            <Text c="dimmed">This registry provides no steps</Text>
          ) : (
            data.map(step => <StepCard key={step.key} step={step} />)
          )
        }
      </QueryResult>
    </Stack>
  );
}

function StepCard({ step }: { step: StepRegistryStep }) {
  const rows = listParams(step.paramsSchema);
  const name = escapeBidi(step.name ?? step.key);
  return (
    <Card component="article" aria-label={step.use}>
      <Stack gap="sm">
        <Group gap="sm">
          <Title order={3} fz="md" className="wrap">
            {name}
          </Title>
          <Code>{step.use}</Code>
          {step.usedBy.length > 0 && (
            <Badge color="gray" c="inherit">
              Used by {step.usedBy.map(each => each.slug).join(", ")}
            </Badge>
          )}
        </Group>
        {step.shortDescription && <Text className="wrap">{escapeBidi(step.shortDescription)}</Text>}
        {step.longDescription && step.longDescription !== step.shortDescription && (
          <Text size="sm" c="dimmed" className="wrap" style={{ whiteSpace: "pre-wrap" }}>
            {escapeBidi(step.longDescription)}
          </Text>
        )}
        {rows.length === 0 ? (
          <Text size="sm" c="dimmed">
            No parameters
          </Text>
        ) : (
          <Box
            style={{ overflowX: "auto" }}
            tabIndex={0}
            role="group"
            aria-label={`Parameters of ${step.use}`}
          >
            <Table fz="sm" verticalSpacing={6} miw={520}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Parameter</Table.Th>
                  <Table.Th>Type</Table.Th>
                  <Table.Th>Required</Table.Th>
                  <Table.Th>Description</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {rows.map(row => (
                  <Table.Tr key={row.name}>
                    <Table.Td>
                      <Code>{escapeBidi(row.name)}</Code>
                    </Table.Td>
                    <Table.Td className="wrap">{escapeBidi(row.type)}</Table.Td>
                    <Table.Td>{row.isRequired ? "yes" : ""}</Table.Td>
                    <Table.Td className="wrap">{escapeBidi(row.note)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Box>
        )}
        <Snippet label={`YAML of ${step.use}`} text={formatStepYaml(step.use, name, step.paramsSchema)} />
        {step.yamlExample && (
          <details className="more">
            <summary>Example from the registry</summary>
            <Box mt="xs">
              <Snippet label={`Example of ${step.use}`} text={escapeBidi(step.yamlExample)} />
            </Box>
          </details>
        )}
      </Stack>
    </Card>
  );
}
