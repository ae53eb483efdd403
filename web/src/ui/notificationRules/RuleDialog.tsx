import { Checkbox, Group, NativeSelect, Radio, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { fieldError } from "@/api/problem";
import type { NotificationRule } from "@/api/types";
import { type RuleScope, useReplaceNotificationRules } from "@/data/notificationRules";
import { ConfirmDialog } from "../ConfirmDialog";
import { EventKindPicker } from "../events/EventKindPicker";
import { formatAllEvents, formatConcerned } from "./ruleText";
import { listTargets, parseTarget, type RuleValues, toRule, toValues } from "./ruleValues";

const DIGESTS = [
  { value: "0", label: "At once" },
  { value: "5", label: "At most every 5 minutes" },
  { value: "30", label: "At most every 30 minutes" },
  { value: "60", label: "At most every hour" },
  { value: "1440", label: "At most once a day" },
];

type Props = {
  org: string;
  scope: RuleScope;
  /** Names of the organization's chat destinations. */
  destinations: string[];
  /** Null for a new rule. */
  rule: NotificationRule | null;
  /** Returns all rules with this one in its place. */
  replaceIn: (rule: NotificationRule) => NotificationRule[];
  onClose: () => void;
};

export function RuleDialog({ org, scope, destinations, rule, replaceIn, onClose }: Props) {
  const replace = useReplaceNotificationRules(org, scope);
  const form = useForm<RuleValues>({ initialValues: toValues(rule, firstTarget(scope, destinations)) });
  const { target, isLimited, kinds, digest } = form.values;
  const { channel, destination } = parseTarget(target);
  const hasDestination = destination !== undefined;
  const next = toRule(form.values);
  const isOwn = scope.kind === "own";
  const problem = (field: string) =>
    replace.isError
      ? fieldError(replace.error, `/rules/${replaceIn(next).indexOf(next)}/${field}`)
      : undefined;
  const digests = DIGESTS.some(each => each.value === digest)
    ? DIGESTS
    : [...DIGESTS, { value: digest, label: `At most every ${digest} minutes` }];
  return (
    <ConfirmDialog
      onClose={onClose}
      title={rule ? "Edit notification rule" : "Add notification rule"}
      action={rule ? "Save" : "Add"}
      mutation={replace}
      disabled={isLimited && kinds.length === 0}
      input={replaceIn(next)}
      success={() => (rule ? "Rule saved" : "Rule added")}
    >
      <NativeSelect
        label={scope.kind === "organization" ? "Chat destination" : "Channel"}
        data={listTargets(scope.kind, destinations, target)}
        description={describeTarget(scope.kind, target)}
        data-autofocus
        {...form.getInputProps("target")}
        error={problem("destination")}
      />
      <Radio.Group label="Events" {...form.getInputProps("about")}>
        <Stack gap={6} mt={6}>
          <Radio
            value="mine"
            label={isOwn ? "That concern me" : `That concern ${formatConcerned(scope.kind, hasDestination)}`}
          />
          <Radio
            value="all"
            label={isOwn ? "All that I may see" : formatAllEvents(scope.kind, hasDestination)}
          />
        </Stack>
      </Radio.Group>
      <Checkbox
        label="Only some kinds of events"
        {...form.getInputProps("isLimited", { type: "checkbox" })}
      />
      {isLimited && <EventKindPicker value={kinds} onChange={value => form.setFieldValue("kinds", value)} />}
      <Group grow align="flex-start">
        <TextInput
          label="Pipeline"
          placeholder="all"
          description="Slug, or shop*"
          {...form.getInputProps("pipeline")}
          error={problem("pipeline")}
        />
        <TextInput
          label="Environment or stage"
          placeholder="all"
          description="Name, or qa-*"
          {...form.getInputProps("environment")}
          error={problem("environment")}
        />
      </Group>
      {channel !== "inbox" && (
        <>
          <NativeSelect
            label={channel === "email" ? "Send emails" : "Send messages"}
            data={digests}
            {...form.getInputProps("digest")}
          />
          <Checkbox
            label="Quiet hours"
            description={channel === "email" ? "Emails are sent afterwards" : "Messages are sent afterwards"}
            {...form.getInputProps("isQuiet", { type: "checkbox" })}
          />
          {form.values.isQuiet && (
            <Group grow align="flex-start">
              <TextInput type="time" label="From" required {...form.getInputProps("quietFrom")} />
              <TextInput type="time" label="To" required {...form.getInputProps("quietTo")} />
              <TextInput
                label="Time zone"
                required
                {...form.getInputProps("timeZone")}
                error={problem("quietHours/timeZone")}
              />
            </Group>
          )}
        </>
      )}
    </ConfirmDialog>
  );
}

/** The target that a new rule has at first. */
function firstTarget(scope: RuleScope, destinations: string[]): string {
  return scope.kind === "organization" ? `chat:${destinations[0] ?? ""}` : "email";
}

function describeTarget(scope: RuleScope["kind"], target: string): string | undefined {
  const { channel, destination } = parseTarget(target);
  if (destination !== undefined || scope === "organization") return undefined;
  if (scope === "own")
    return channel === "chat" ? "Needs a Slack account that is linked to yours" : undefined;
  return `Replaces the default notifications of members.${channel === "chat" ? " Needs a Slack account that is linked to the member's." : ""}`;
}
