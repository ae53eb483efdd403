import { Badge, Button, Card, Group, Text, Title } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { NotificationRule } from "@/api/types";
import { chatsQuery } from "@/data/chats";
import {
  notificationRulesQuery,
  type RuleScope,
  useReplaceNotificationRules,
} from "@/data/notificationRules";
import { capitalize } from "@/format/text";
import { QueryResult } from "../QueryResult";
import { toast } from "../toast";
import { RuleDialog } from "./RuleDialog";
import styles from "./rules.module.css";
import { formatChannel, formatRuleEvents, formatRuleTimes } from "./ruleText";
import { formatLead, formatNoRules, listRules, toSavedRules } from "./scopeRules";

type Props = {
  scope: RuleScope;
  org: { slug: string; name: string };
  mayWrite: boolean;
};

/** A rule that is being edited, with its place in the list; a new one comes last. */
type Editing = { at: number; rule: NotificationRule | null };

/** Which events reach people or chat destinations, and how: rules of the current user, a team or the organization. */
export function NotificationRules({ scope, org, mayWrite }: Props) {
  const isOwn = scope.kind === "own";
  const rules = useQuery(notificationRulesQuery(org.slug, scope));
  const chats = useQuery({ ...chatsQuery(org.slug), enabled: !isOwn });
  const replace = useReplaceNotificationRules(org.slug, scope);
  const [editing, setEditing] = useState<Editing | null>(null);
  const current = rules.data ? listRules(scope.kind, rules.data) : [];
  const destinations = chats.data?.data.map(each => each.name);
  // The organization's rules can only send to chat destinations.
  const hasTargets =
    scope.kind === "organization" ? Boolean(destinations?.length) : isOwn || !chats.isPending;
  if (scope.kind === "organization" && !hasTargets && current.length === 0) return null;
  const save = (next: NotificationRule[] | null, message: string) =>
    replace.mutate(next && toSavedRules(scope.kind, next), {
      onSuccess: () => toast.success(message),
      onError: toast.problem,
    });
  const size = isOwn ? undefined : "xs";
  const name = isOwn ? "Notifications" : "Notification rules";
  const list = (
    <ul className={styles.list}>
      {current.map((rule, at) => (
        <RuleRow
          key={JSON.stringify(rule)}
          rule={rule}
          scope={scope.kind}
          isDeleted={Boolean(rule.destination && destinations && !destinations.includes(rule.destination))}
          isSaving={replace.isPending}
          edit={mayWrite && (() => setEditing({ at, rule }))}
          remove={() =>
            save(
              current.filter(each => each !== rule),
              "Rule removed",
            )
          }
        />
      ))}
    </ul>
  );
  const content = (
    <>
      <Group justify="space-between" mb="sm">
        <div style={{ flex: "1 1 16rem", minWidth: 0 }}>
          <Title order={2}>{name}</Title>
          <Text c="dimmed" size="sm">
            {rules.data && formatLead(scope.kind, rules.data, org.name)}
          </Text>
        </div>
        {mayWrite && (
          <Group gap="xs">
            {rules.data && !rules.data.isDefault && scope.kind !== "organization" && (
              <Button
                size={size}
                variant="default"
                loading={replace.isPending}
                onClick={() => save(null, "Default notifications restored")}
              >
                Restore defaults
              </Button>
            )}
            <Button
              size={size}
              variant="default"
              leftSection={!isOwn && <IconPlus size={14} />}
              disabled={!rules.data || !hasTargets}
              onClick={() => setEditing({ at: current.length, rule: null })}
            >
              Add rule
            </Button>
          </Group>
        )}
      </Group>
      <QueryResult of={rules}>
        {set => {
          if (current.length === 0) return <Text c="dimmed">{formatNoRules(scope.kind, set)}</Text>;
          return isOwn ? list : <Card>{list}</Card>;
        }}
      </QueryResult>
      {editing && (
        <RuleDialog
          org={org.slug}
          scope={scope}
          destinations={destinations ?? []}
          rule={editing.rule}
          replaceIn={rule => current.toSpliced(editing.at, 1, rule)}
          onClose={() => setEditing(null)}
        />
      )}
    </>
  );
  return isOwn ? (
    <Card component="section" aria-label={name}>
      {content}
    </Card>
  ) : (
    <section aria-label={name}>{content}</section>
  );
}

type RowProps = {
  rule: NotificationRule;
  scope: RuleScope["kind"];
  /** Whether its chat destination was deleted. */
  isDeleted: boolean;
  isSaving: boolean;
  /** False for users without the permission. */
  edit: false | (() => void);
  remove: () => void;
};

function RuleRow({ rule, scope, isDeleted, isSaving, edit, remove }: RowProps) {
  const events = formatRuleEvents(rule, scope);
  const times = formatRuleTimes(rule);
  const target = rule.destination ?? rule.channel;
  return (
    <li className={styles.rule}>
      <div>
        <Badge variant="light" className={styles.channel}>
          {formatChannel(rule)}
        </Badge>
      </div>
      <div>
        <Text className="wrap">{events}</Text>
        {times && (
          <Text size="sm" c="dimmed" className="wrap">
            {capitalize(times)}
          </Text>
        )}
        {isDeleted && (
          <Text size="sm" c="var(--berth-bad)">
            Sends nothing: the chat destination was deleted
          </Text>
        )}
      </div>
      {edit && (
        <Group gap="xs" wrap="nowrap">
          <Button size="xs" variant="default" aria-label={`Edit ${target} rule: ${events}`} onClick={edit}>
            Edit
          </Button>
          <Button
            size="xs"
            variant="default"
            disabled={isSaving}
            aria-label={`Remove ${target} rule: ${events}`}
            onClick={remove}
          >
            Remove
          </Button>
        </Group>
      )}
    </li>
  );
}
