import { Badge, Button, Card, Group, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ActiveLogin } from "@/api/types";
import { loginsQuery, useEndLogin, useLogOutEverywhere } from "@/data/logins";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { ActionsCell, LabelledCell, ResponsiveTable } from "@/ui/lists/ResponsiveTable";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { toast } from "@/ui/toast";

/** Browsers in which the current user is logged in. */
export function LoginsCard() {
  const logins = useQuery(loginsQuery);
  const [isEndingOthers, setEndingOthers] = useState(false);
  const others = logins.data?.data.filter(each => !each.isCurrent).length ?? 0;
  return (
    <Card component="section" aria-label="Active logins">
      <Group justify="space-between" mb="sm">
        <div>
          <Title order={2}>Active logins</Title>
          <Text c="dimmed" size="sm">
            Browsers in which you are logged in. The CLI uses API tokens.
          </Text>
        </div>
        {others > 0 && (
          <Button variant="default" onClick={() => setEndingOthers(true)}>
            Log out everywhere else
          </Button>
        )}
      </Group>
      <QueryResult of={logins}>
        {({ data }) => (
          <ResponsiveTable of={["Browser", "Address", "Last seen", "Logged in"]}>
            {data.map(each => (
              <LoginRow key={each.id} login={each} />
            ))}
          </ResponsiveTable>
        )}
      </QueryResult>
      {isEndingOthers && <EndOthersDialog onClose={() => setEndingOthers(false)} />}
    </Card>
  );
}

function LoginRow({ login }: { login: ActiveLogin }) {
  const end = useEndLogin();
  const name = login.client ?? "Unknown browser";
  return (
    <Table.Tr>
      <Table.Td fw={550} className="wrap">
        {name}{" "}
        {login.isCurrent && (
          <Badge color="gray" c="inherit" ml={4}>
            this browser
          </Badge>
        )}
      </Table.Td>
      <LabelledCell of="Address">{login.address}</LabelledCell>
      <LabelledCell of="Last seen">
        <RelativeTime at={login.lastSeenAt} />
      </LabelledCell>
      <LabelledCell of="Logged in">
        <RelativeTime at={login.createdAt} />
      </LabelledCell>
      <ActionsCell>
        {!login.isCurrent && (
          <Button
            size="xs"
            variant="default"
            loading={end.isPending}
            aria-label={`Log out ${name}, ${login.address}`}
            onClick={() => end.mutate(login.id, { onSuccess: () => toast.success(`${name} logged out`) })}
          >
            Log out
          </Button>
        )}
      </ActionsCell>
    </Table.Tr>
  );
}

function EndOthersDialog({ onClose }: { onClose: () => void }) {
  const end = useLogOutEverywhere();
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Log out everywhere else?"
      action="Log out"
      danger
      mutation={end}
      input={{ keepCurrent: true }}
      success={({ loginsEnded }) =>
        loginsEnded === 1 ? "1 browser logged out" : `${loginsEnded} browsers logged out`
      }
    >
      <Text size="sm">
        All other browsers have to log in again. API tokens and logins of the CLI stay valid.
      </Text>
    </ConfirmDialog>
  );
}
