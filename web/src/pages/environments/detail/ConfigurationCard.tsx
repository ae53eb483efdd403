import { Anchor, Badge, Card, Group, Table, Title } from "@mantine/core";
import type { Environment } from "@/api/types";
import { isWebAddress } from "@/data/environments";
import { formatDuration } from "@/format/time";

/** Variables of an environment as text. */
export function listVars({ configuration }: Environment) {
  return Object.entries(configuration.vars as Record<string, unknown>).map(([name, content]) => {
    const value = String(content);
    return { name, value, isWebAddress: isWebAddress(value) };
  });
}

/** Configuration of an environment in the pipeline definition. */
export function ConfigurationCard({ environment }: { environment: Environment }) {
  const { configuration } = environment;
  const idle = configuration.release.find(rule => rule.afterIdleSeconds)?.afterIdleSeconds;
  return (
    <Card component="section" aria-label="Configuration">
      <Title order={2} mb="xs">
        Configuration
      </Title>
      <Table layout="fixed">
        <Table.Tbody>
          <ConfigurationRow name="Expires">
            {configuration.ttlSeconds
              ? `after ${formatDuration(configuration.ttlSeconds)}`
              : "never, unless set when claiming"}
            {idle ? `, or ${formatDuration(idle)} after the last deployment` : ""}
          </ConfigurationRow>
          <ConfigurationRow name="On release">
            {configuration.onRelease === "deploy_tracked" ? "redeploy the tracked branch" : "keep as is"}
          </ConfigurationRow>
          {configuration.owner && <ConfigurationRow name="Owner">{configuration.owner}</ConfigurationRow>}
          {configuration.labels.length > 0 && (
            <ConfigurationRow name="Labels">
              <Group gap={4}>
                {configuration.labels.map(label => (
                  <Badge key={label} color="gray" c="inherit">
                    {label}
                  </Badge>
                ))}
              </Group>
            </ConfigurationRow>
          )}
          {listVars(environment).map(({ name, value, isWebAddress }) => (
            <ConfigurationRow key={name} name={name}>
              {isWebAddress ? (
                <Anchor href={value} target="_blank" rel="noopener noreferrer" className="wrap">
                  {value}
                </Anchor>
              ) : (
                <span className="wrap">{value}</span>
              )}
            </ConfigurationRow>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}

function ConfigurationRow({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <Table.Tr>
      <Table.Th scope="row" w={130} fw={500} c="dimmed">
        {name}
      </Table.Th>
      <Table.Td>{children}</Table.Td>
    </Table.Tr>
  );
}
